"""Prompts that are given on the command line, as a source of requests: the number of each is its line."""

import io
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Self

from msgspec import structs

from omni_cli.prompts.expansion import Expander
from omni_cli.prompts.prompt_source import PromptSource
from omni_cli.prompts.reader import AS_IT_IS, ReadOptions
from omni_cli.request import GenerationRequest


class PromptTexts(PromptSource):
    """The values of `--prompt`, each a request. They keep the rules of a prompt file."""

    def __init__(
        self,
        texts: Sequence[str],
        defaults: GenerationRequest,
        *,
        options: ReadOptions = AS_IT_IS,
        expander: Expander | None = None,
    ) -> None:
        """Read `texts`; `defaults`, `options` and `expander` are those of a PromptSource."""
        options = structs.replace(options, format="jsonl", encoding="utf-8")
        super().__init__("--prompt", defaults, options=options, expander=expander)
        self._lines = "".join(json.dumps(text) + "\n" for text in texts).encode()

    @property
    def base(self) -> Path:
        """The working folder: paths on the command line start there."""
        return Path()

    def __enter__(self) -> Self:
        """Open the source; there is nothing to copy."""
        self._open = partial(io.BytesIO, self._lines)
        return self
