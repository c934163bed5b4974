"""Tell once that prompts hold the syntax of another tool, which would be rendered as words: `--prompt-syntax auto`.

Texts are looked through in batches, for substrings first, so that the check costs next to nothing for plain prompts.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from omni_cli.errors import Diagnostic
from omni_cli.log import logger
from omni_cli.prompts.row import Rows
from omni_cli.request import GenerationRequest
from omni_cli.text import quote

_MAX_BATCH = 32 * 1024
"""Characters that are looked through at once; the first ones in smaller batches, as a pipe may be slow."""


class _SyntaxKind(NamedTuple):
    """A kind of syntax: a part that all of it has, its pattern, the flag that reads it, and a pattern to show more."""

    part: str
    pattern: re.Pattern[str]
    flag: str
    whole: re.Pattern[str] | None = None

    def is_in(self, text: str) -> bool:
        """Return whether `text` has any of this kind; a single character is found the fastest."""
        return self.part[-1] in text and self.part in text and self.pattern.search(text) is not None

    def show(self, text: str) -> str:
        """Return what `text` has of this kind, "" if nothing."""
        match = self.pattern.search(text)
        if match is None:
            return ""
        whole = None if self.whole is None else self.whole.search(text)
        return (whole or match).group()


_A1111, _EXPAND = "--prompt-syntax a1111", "--expand all"

_WEIGHT = r":\s*+(?=[.0-9])[0-9]*+\.?+[0-9]*+\s*+"

_KINDS = (
    _SyntaxKind("<", re.compile(r"<(?:lora|lyco|lycoris|hypernet):[^<>\n]*>", re.IGNORECASE), _A1111),
    _SyntaxKind("--", re.compile(r"(?:^|(?<=\s))--[A-Za-z][\w-]*(?:[ =][^\n]*)?$", re.MULTILINE), _A1111),
    _SyntaxKind(" -", re.compile(r"(?<=\s)-[nHWSsCf] ?[0-9.]+$", re.MULTILINE), _A1111),
    _SyntaxKind(":", re.compile(rf"{_WEIGHT}\)"), _A1111, re.compile(rf"\([^()\n]*{_WEIGHT}\)")),
    _SyntaxKind("[", re.compile(rf"\[[^\[\]\n]*{_WEIGHT}\]"), _A1111),
    _SyntaxKind("BREAK", re.compile(r"\bBREAK\b"), _A1111),
    _SyntaxKind("---", re.compile(r"^-{3,}$", re.MULTILINE), _A1111),
    _SyntaxKind("//", re.compile(r"^//[^\n]*", re.MULTILINE), _A1111),
    _SyntaxKind("|", re.compile(r"\{[^{}|\n]*\|[^{}\n]*\}"), _EXPAND),
    _SyntaxKind("__", re.compile(r"(?<!\w)__[A-Za-z][\w/*-]*__(?!\w)"), _EXPAND),
)


def alternatives_in(text: str) -> str:
    """Return the first alternatives or wildcard in `text`, "" if there are none."""
    return next((shown for kind in _KINDS if kind.flag == _EXPAND and (shown := kind.show(text))), "")


class SyntaxWatch:
    """Looks through the texts of one list, and warns once for each flag that would read what they hold."""

    def __init__(self, negative_prompt: str | None, *, expands: bool) -> None:
        """Look at `negative_prompt`, that of a flag, too; leave out what `--expand` reads if `expands`."""
        self._flag_text = negative_prompt
        self._kinds = [kind for kind in _KINDS if kind.flag != _EXPAND or not expands]
        self._done = False

    def rows(self, rows: Rows, *, endless: bool) -> Rows:
        """Return `rows` as they are; after a pass to the end of rows that are not `endless`, no other looks at them."""
        return rows if self._done or not self._kinds else self._watched(rows, endless=endless)

    def _watched(self, rows: Rows, *, endless: bool) -> Rows:
        if self._flag_text is not None:
            self._look([self._flag_text], lambda at: "--negative-prompt")
        texts: list[str] = []
        lines: list[int] = []
        size, limit, source = 0, 1, ""

        def place(at: int) -> str:
            return f"{source}:{lines[at]}" if lines[at] else source

        for row in rows:
            yield row
            if isinstance(row, Diagnostic):
                continue
            texts.append(text := _brackets_are_words_in(row.request))
            lines.append(row.row.line)
            size += len(text)
            if size >= limit:
                source = row.row.source
                self._look(texts, place)
                texts.clear()
                lines.clear()
                size, limit = 0, min(2 * limit, _MAX_BATCH)
        if texts:
            source = row.source
            self._look(texts, place)
        self._done = not endless

    def _look(self, texts: list[str], place: Callable[[int], str]) -> None:
        """Warn of what `texts` hold, once for each flag that would read it; `place` names the place of a text."""
        whole = "\n".join(texts)
        found = [kind for kind in self._kinds if kind.is_in(whole)]
        for flag in dict.fromkeys(kind.flag for kind in found):
            self._kinds = [kind for kind in self._kinds if kind.flag != flag]
            for at, text in enumerate(texts):
                if shown := [quote(part, 40) for kind in found if kind.flag == flag and (part := kind.show(text))]:
                    _warn(place(at), " and ".join(shown[:2]), flag)
                    break


def _brackets_are_words_in(request: GenerationRequest) -> str:
    """Return the texts of `request` that are rendered as they are."""
    prompt = request.prompt
    if request.negative_prompt is None and request.prompt_weighting is None:
        return prompt or ""
    return "" if request.prompt_weighting is not None else f"{prompt or ''}\n{request.negative_prompt}"


def _warn(place: str, shown: str, flag: str) -> None:
    advice = f"{flag} reads it, --prompt-syntax plain ends this warning"
    logger.warning("%s: %s: prompt syntax of another tool is rendered as words; %s", place, shown, advice)
