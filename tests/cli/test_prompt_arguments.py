"""`run` with prompts on the command line."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from omni_cli.cli.app import app
from omni_cli.cli.prompt_arguments import open_prompts
from omni_cli.config import RunConfig
from omni_cli.errors import UsageError
from omni_cli.prompts.expansion import Expander
from omni_cli.prompts.prompt_texts import PromptTexts
from omni_cli.prompts.reader import AS_IT_IS


@pytest.mark.parametrize(
    ("path", "texts", "message"),
    [
        ("p.jsonl", ["a cat"], "there are a prompt file and --prompt: give one of them"),
        (None, [], "there is nothing to render: give a prompt file, - for standard input, or --prompt TEXT"),
        (None, None, "there is nothing to render"),
    ],
)
def test_a_run_has_a_prompt_file_or_prompts(path: str | None, texts: list[str] | None, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        open_prompts(path, texts, RunConfig(), AS_IT_IS, Expander(RunConfig()), streaming=False)


def test_prompts_are_rendered_with_all_other_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    flags = ["--num-frames", "1", "--seed", "7", "--repeat", "2", "--dry-run", "--print", "paths"]
    result = CliRunner().invoke(app, ["run", "--prompt", "a cat", "--prompt", "a dog", *flags])
    assert result.exit_code == 0, result.output
    paths = result.stdout.split()
    assert [path.startswith("outputs/a-cat-") for path in paths] == [True, True, False, False]
    assert all(path.endswith(".png") for path in paths)


def test_the_source_of_prompts_is_the_command_line() -> None:
    config = RunConfig()
    source = open_prompts(None, ["a cat"], config, AS_IT_IS, Expander(config), streaming=True)
    assert isinstance(source, PromptTexts)
    assert source.base == Path()
