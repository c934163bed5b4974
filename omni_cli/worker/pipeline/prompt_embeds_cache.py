"""Cache prompt embeddings, so that each text is encoded once for all seeds and for every request that repeats it.

pipeline.__call__ ──> encode_prompt(texts, ...) ──> hit ───> copies of the cached embeddings
                                               └──> miss ──> the pipeline's own method; copies are cached, LRU eviction

Text encoders are often larger than the denoiser (T5-XXL, Qwen2.5-VL), and model offload moves them to the device for
each use. While the weights are unchanged, the embeddings depend on the texts alone: code that changes the weights must
call `clear`. What was remarked while a text was encoded, such as a warning that it is too long, is remarked again on
every hit.
"""

import re
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from omni_cli.worker.pipeline.call_notes import Remark, Remarks
from omni_cli.worker.pipeline.nested import leaves, map_leaves

_ENCODE_METHODS = re.compile(r"encode_prompt|_get_\w*prompt_embeds")
"""Names of the methods that turn texts into embeddings in diffusers pipelines (0.42: 232 and 130 definitions)."""

_SCALAR_TYPES = (str, int, float, bool, type(None), torch.device, torch.dtype)


class _Entry(NamedTuple):
    """Cached embeddings, their bytes, and the remarks that were made while they were computed."""

    embeddings: Any
    nbytes: int
    remarks: tuple[Remark, ...]


class PromptEmbedsCache:
    """An LRU cache of one pipeline's prompt embeddings, kept on the device where the pipeline computed them."""

    def __init__(self, max_bytes: int, remarks: Remarks | None = None) -> None:
        """Create an empty cache of at most `max_bytes` bytes of embeddings; 0 disables it.

        `remarks` are those on the current call of the pipeline.
        """
        self._max_bytes = max_bytes
        self._remarks = Remarks() if remarks is None else remarks
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._nbytes = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the cached embeddings."""
        return self._nbytes

    def attach(self, pipeline: Any) -> None:
        """Wrap the text-encoding methods of `pipeline`.

        Does nothing for classes outside of diffusers, whose methods may draw random numbers.
        """
        if self._max_bytes <= 0 or not type(pipeline).__module__.startswith("diffusers."):
            return
        for name in dir(type(pipeline)):
            if _ENCODE_METHODS.fullmatch(name):
                setattr(pipeline, name, self.cached(name, getattr(pipeline, name)))

    def clear(self) -> None:
        """Drop all embeddings, because the weights changed or the memory is needed."""
        self._entries.clear()
        self._nbytes = 0

    def cached(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        """Return `method`, which makes embeddings of its arguments, with this cache in front; `name` is its key."""

        def encode(*args: Any, **keywords: Any) -> Any:
            key = _key((name, args, keywords))
            if key is None:
                return method(*args, **keywords)
            entry = self._entries.get(key)
            if entry is not None:
                self._entries.move_to_end(key)
                for remark in entry.remarks:
                    self._remarks.collect(remark)
                return map_leaves(_clone, entry.embeddings)
            earlier = len(self._remarks)
            result = method(*args, **keywords)
            self._store(key, result, tuple(self._remarks[earlier:]))
            return result

        return encode

    def _store(self, key: Hashable, result: Any, remarks: tuple[Remark, ...]) -> None:
        """Cache a copy of `result`, unless it holds anything but tensors and None, or exceeds the whole cache."""
        tensors = [leaf for leaf in leaves(result) if leaf is not None]
        if not all(isinstance(tensor, torch.Tensor) for tensor in tensors):
            return
        nbytes = sum(tensor.nbytes for tensor in tensors)
        if nbytes > self._max_bytes:
            return
        while self._nbytes + nbytes > self._max_bytes:
            _, oldest = self._entries.popitem(last=False)
            self._nbytes -= oldest.nbytes
        self._entries[key] = _Entry(map_leaves(_clone, result), nbytes, remarks)
        self._nbytes += nbytes


def _key(value: Any) -> Hashable | None:
    """Return a key that is equal for equal arguments only; None for arguments without one (tensors, images)."""
    if isinstance(value, _SCALAR_TYPES):
        return type(value), value  # 1, 1.0 and True are equal, but not the same argument
    if isinstance(value, Mapping):
        value = tuple(sorted(value.items()))
    if isinstance(value, Sequence):
        parts = tuple(_key(part) for part in value)
        return None if any(part is None for part in parts) else (type(value), parts)
    return None


def _clone(leaf: torch.Tensor | None) -> torch.Tensor | None:
    """Return a copy of an embedding [any shape]: a pipeline may write into the embeddings it gets."""
    return None if leaf is None else leaf.clone()
