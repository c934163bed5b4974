"""Find the prompts that a text encoder does not read to their end.

    pipeline ── tokenizer(texts, truncation=True, max_length=77) ──> ids ──> text encoder
                    └── a row is full: tokenize its text again, whole ──> PromptCut

A tokenizer's class is replaced by a subclass that watches its calls, because only the pipeline knows which limit holds
for which text. Only a full row is tokenized again, and only when its text is encoded: the prompt embeddings cache
repeats the cuts of a cached text.
"""

import contextlib
import copy
import html
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from transformers import PreTrainedTokenizerBase, ProcessorMixin

from omni_cli.text import quote

_TOO_LONG = "sequence-length-is-longer-than-the-specified-maximum"
"""The key under which a tokenizer of transformers (5.18) remembers that it has warned of a long text."""

_SHOWN_TOKENS = 64
"""Tokens of the unread part that are decoded to quote its beginning."""


@dataclass(frozen=True, slots=True)
class PromptCut:
    """A text of which an encoder reads `limit` of `total` tokens; `unread` is the beginning of the rest."""

    text: str
    encoder: str
    limit: int
    total: int
    unread: str

    def note(self, field: str) -> str:
        """Return the note for a row whose field `field` is the text."""
        size = f"{self.limit} of {self.total} tokens"
        return f"{field} is cut: {self.encoder} reads {size}, the rest has no effect there: {quote(self.unread)}"


class PromptWatch:
    """Watches the tokenizers of one loaded pipeline."""

    def __init__(self, pipeline: Any, collect: Callable[[PromptCut], None]) -> None:
        """Pass every cut that a tokenizer of `pipeline` makes to `collect`."""
        self._collect = collect
        self._default_length = _default_sequence_length(pipeline)
        self._sequence_length: int | None = None
        self._prompts: tuple[str, ...] = ()
        self.tokenizers = 0
        """The number of watched tokenizers."""
        for name, component in sorted(vars(pipeline).items(), reverse=True):  # tokenizers before processors
            tokenizer = component.tokenizer if isinstance(component, ProcessorMixin) else component
            if isinstance(tokenizer, PreTrainedTokenizerBase) and not hasattr(type(tokenizer), "unwatched_call"):
                self.tokenizers += 1
                tokenizer.__class__ = self._watched_class(type(tokenizer), _encoder_name(pipeline, name))

    def begin(self, prompts: Sequence[str], sequence_length: int | None) -> None:
        """Start a call of the pipeline for `prompts`; `sequence_length` is its `max_sequence_length`, if given."""
        self._prompts = tuple(sorted(prompts, key=len, reverse=True))
        self._sequence_length = sequence_length or self._default_length

    def _watched_class(self, parent: Any, encoder: str) -> type:
        watch = self

        def watched_call(self: Any, text: Any = None, *args: Any, **keywords: Any) -> Any:
            result = parent.__call__(self, text, *args, **keywords)
            if text is not None and not args and keywords.get("truncation"):
                with contextlib.suppress(Exception):  # boundary: a tokenizer of unknown making must not fail the call
                    for cut in watch._cuts(self, encoder, text, keywords, result):
                        watch._collect(cut)
            return result

        members = {"__call__": watched_call, "__module__": parent.__module__, "unwatched_call": parent.__call__}
        return type(parent.__name__, (parent,), members)

    def _cuts(
        self, tokenizer: Any, encoder: str, text: Any, keywords: dict[str, Any], result: Any
    ) -> Iterator[PromptCut]:
        """Yield the cuts of one call of `tokenizer`, whose answer is `result`."""
        texts = [text] if isinstance(text, str) else text
        limit = keywords.get("max_length") or tokenizer.model_max_length
        encode = {"add_special_tokens": keywords.get("add_special_tokens", True), "verbose": False}
        for whole, row in zip(texts, _rows(result, isinstance(text, str)), strict=True):
            shorter = self._embeddings_limit(limit)
            if shorter is not None and len(row) > shorter:
                prompt = next((prompt for prompt in self._prompts if prompt in whole), "")
                ids = tokenizer.unwatched_call(prompt, add_special_tokens=False, verbose=False)["input_ids"]
                if len(ids) > shorter:
                    yield PromptCut(prompt, encoder, shorter, len(ids), _unread(tokenizer, ids[:shorter], ids))
                    continue
            if len(row) >= limit:
                ids = tokenizer.unwatched_call(whole, **encode)["input_ids"]
                if len(ids) > limit:
                    yield PromptCut(whole, encoder, limit, len(ids), _unread(tokenizer, row, ids))

    def _embeddings_limit(self, limit: int) -> int | None:
        """Return the length to which the pipeline cuts embeddings of up to `limit` tokens; None if it does not.

        With several tokenizers, `max_sequence_length` may be about another one.
        """
        length = self._sequence_length
        return length if length is not None and length < limit and self.tokenizers == 1 else None


def silent_copy(tokenizer: Any) -> Any:
    """Return a copy of `tokenizer` that nothing watches and that does not warn of long texts."""
    copied = copy.copy(tokenizer)
    if hasattr(type(tokenizer), "unwatched_call"):
        copied.__class__ = type(tokenizer).__base__
    copied.deprecation_warnings = tokenizer.deprecation_warnings | {_TOO_LONG: True}  # as if it had warned already
    return copied


def _rows(result: Any, is_single: bool) -> list[list[int]]:
    """Return the token ids of each text in a tokenizer's answer, without padding where there is a mask."""
    ids, mask = result["input_ids"], result.get("attention_mask")
    rows, masks = (value.tolist() if hasattr(value, "tolist") else value for value in (ids, mask))
    if is_single and (not rows or isinstance(rows[0], int)):
        rows, masks = [rows], None if masks is None else [masks]
    if masks is None:
        return list(rows)
    return [
        [token for token, keep in zip(row, kept, strict=True) if keep] for row, kept in zip(rows, masks, strict=True)
    ]


def _unread(tokenizer: Any, row: Sequence[int], ids: Sequence[int]) -> str:
    """Return the beginning of the text in `ids` that is missing in `row`, a part of it with the end marks."""
    if tokenizer.truncation_side == "left":
        missing = ids[: len(ids) - _common(row[::-1], ids[::-1])]
    else:
        missing = ids[_common(row, ids) :]
    return str(tokenizer.decode(missing[:_SHOWN_TOKENS], skip_special_tokens=True)).strip()


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """Return the length of the common beginning of two sequences."""
    pairs = zip(one, other, strict=False)
    return next((index for index, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _encoder_name(pipeline: Any, tokenizer: str) -> str:
    """Return the name of the text encoder behind the tokenizer or processor of that name, if there is one."""
    encoder = "text_encoder" + tokenizer.removeprefix("tokenizer").removeprefix("processor")
    return encoder if vars(pipeline).get(encoder) is not None else tokenizer


def _default_sequence_length(pipeline: Any) -> int | None:
    """Return the default of the pipeline's `max_sequence_length`; None if it has none."""
    parameter = inspect.signature(type(pipeline).__call__).parameters.get("max_sequence_length")
    return parameter.default if parameter is not None and isinstance(parameter.default, int) else None


def find_field(cut: PromptCut, fields: Sequence[tuple[str, str | None]]) -> list[int]:
    """Return the indices of the `fields`, (name, text), that `cut` is about; empty if none of their texts is in it.

    A pipeline may put a text into a template, and unescape HTML and fold white space in it first.
    """
    whole = _normalized(cut.text)
    lengths = [len(known) if (known := _normalized(text or "")) in whole else 0 for _, text in fields]
    longest = max(lengths, default=0)
    return [index for index, length in enumerate(lengths) if length == longest] if longest else []


def _normalized(text: str) -> str:
    return " ".join(html.unescape(html.unescape(text)).split()).casefold()
