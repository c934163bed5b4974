"""Prompt embeddings are kept: the same text is encoded once, for all the seeds of a prompt and for every negative prompt.

pipeline.__call__ ──> encode_prompt(texts, ...) ──> known ──> copies of what it gave the last time
                                               └──> new ────> the pipeline's own method; copies are kept, least used out first

A text encoder is often larger than the denoiser (T5-XXL, Qwen2.5-VL), and under model offload every use moves it to the device.
The result is a function of the texts alone as long as the weights stand: whoever changes them (adapters, offload) calls `forget`.
"""

import re
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import torch

_METHODS = re.compile(r"encode_prompt|_get_\w*prompt_embeds")
"""What diffusers' pipelines call the methods that turn texts into embeddings (0.42: 232 and 130 definitions)."""

_PLAIN = (str, int, float, bool, type(None), torch.device, torch.dtype)


class PromptMemo:
    """Embeddings of one pipeline, at most `limit` bytes of them, on the device where the pipeline left them."""

    def __init__(self, limit: int) -> None:
        """Nothing is kept yet; a `limit` of 0 keeps nothing ever."""
        self._limit = limit
        self._kept: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._bytes = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the embeddings that are kept."""
        return self._bytes

    def install(self, pipeline: Any) -> None:
        """Put the memo before the text methods of `pipeline`, if its class is one of diffusers: another's may draw random numbers."""
        if self._limit <= 0 or not type(pipeline).__module__.startswith("diffusers."):
            return
        for name in dir(type(pipeline)):
            if _METHODS.fullmatch(name):
                setattr(pipeline, name, self._remembering(name, getattr(pipeline, name)))

    def forget(self) -> None:
        """Drop everything: the weights that made it have changed, or its memory is wanted."""
        self._kept.clear()
        self._bytes = 0

    def _remembering(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def remembered(*args: Any, **keywords: Any) -> Any:
            key = _key((name, args, keywords))
            if key is None:
                return method(*args, **keywords)
            known = self._kept.get(key)
            if known is not None:
                self._kept.move_to_end(key)
                return _copy(known[0])
            result = method(*args, **keywords)
            self._keep(key, result)
            return result

        return remembered

    def _keep(self, key: Hashable, result: Any) -> None:
        """A copy of `result`, unless it holds something other than tensors or is larger than all there is room for."""
        size = _size(result)
        if size is None or size > self._limit:
            return
        while self._bytes + size > self._limit:
            _, (_, freed) = self._kept.popitem(last=False)
            self._bytes -= freed
        self._kept[key] = (_copy(result), size)
        self._bytes += size


def _key(value: Any) -> Hashable | None:
    """`value` as something that is equal only for equal calls; None if a call with it must not be remembered (tensors, pictures)."""
    if isinstance(value, _PLAIN):
        return type(value), value  # 1, 1.0 and True are equal, but not the same argument
    if isinstance(value, Mapping):
        value = tuple(sorted(value.items()))
    if isinstance(value, Sequence):
        parts = tuple(_key(part) for part in value)
        return None if any(part is None for part in parts) else (type(value), parts)
    return None


def _size(result: Any) -> int | None:
    """Bytes of the tensors in `result` (a tensor, None, or tuples and lists of them); None if there is anything else in it."""
    if result is None:
        return 0
    if isinstance(result, torch.Tensor):
        return result.nbytes
    if type(result) not in (tuple, list):
        return None
    sizes = [_size(part) for part in result]
    return None if None in sizes else sum(size for size in sizes if size is not None)


def _copy(result: Any) -> Any:
    """The same values in memory of their own: a pipeline may write into what it was given."""
    if isinstance(result, torch.Tensor):
        return result.clone()
    return result if result is None else type(result)(_copy(part) for part in result)
