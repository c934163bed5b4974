"""The prompts of a command: a file, standard input, or the values of `--prompt`."""

from collections.abc import Sequence

from omni_cli.config import RunConfig
from omni_cli.errors import UsageError
from omni_cli.prompts.expansion import Expander
from omni_cli.prompts.prompt_source import PromptSource
from omni_cli.prompts.prompt_texts import PromptTexts
from omni_cli.prompts.reader import ReadOptions


def open_prompts(
    path: str | None,
    texts: Sequence[str] | None,
    config: RunConfig,
    options: ReadOptions,
    expander: Expander,
    *,
    streaming: bool,
) -> PromptSource:
    """Return the source of `path` or of `texts`, not open yet. Raises UsageError unless there is one of them."""
    if path is not None and texts:
        raise UsageError("there are a prompt file and --prompt: give one of them")
    if texts:
        return PromptTexts(texts, config.defaults, options=options, expander=expander)
    if path is None:
        raise UsageError("there is nothing to render: give a prompt file, - for standard input, or --prompt TEXT")
    return PromptSource(path, config.defaults, options=options, expander=expander, streaming=streaming)
