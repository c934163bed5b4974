"""`omni-gen init`: what it writes is a prompt file that passes, and settings that are the defaults."""

import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from jsonschema import Draft202012Validator, ValidationError
from typer.testing import CliRunner

from omni_cli.cli.app import app
from omni_cli.cli.init import NAMES, PROMPTS, SCHEMA, SETTINGS, write_files
from omni_cli.cli.run import run
from omni_cli.cli.run_config import run_config
from omni_cli.cli.schema import SchemaTarget, schema_text
from omni_cli.cli.yaml_settings import read_flag_values
from omni_cli.config import RunConfig
from omni_cli.errors import OutputFolderError, UsageError
from omni_cli.prompts.reader import read
from omni_cli.prompts.row import LocatedRequest

COMMAND: Any = typer.main.get_command(app)
SCHEMA_TEXT = schema_text(SchemaTarget.PROMPTS, COMMAND)


def uncommented(text: str) -> str:
    """The text with every commented item or setting in force."""
    return re.sub(r"(?m)^# (?!yaml-language-server)([ -]|[a-z-]+: )", r"\1", text)


def test_both_files_are_written_and_lead_to_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written = CliRunner().invoke(app, ["init"])
    assert written.exit_code == 0
    assert written.stdout.split() == list(NAMES)
    command = written.stderr.strip().removeprefix("render them with: omni-gen ").split()
    planned = CliRunner().invoke(app, [*command, "--dry-run", "--print", "paths"])
    assert planned.exit_code == 0, planned.output
    first, *others = planned.stdout.split()
    assert first.startswith("outputs/a-red-circle-moving-right")
    assert others == ["outputs/square-0.png", "outputs/square-1.png"]


def test_what_is_commented_out_is_valid(tmp_path: Path) -> None:
    write_files(tmp_path, SCHEMA_TEXT)
    prompts = tmp_path / PROMPTS
    prompts.write_text(uncommented(prompts.read_text()))
    items = yaml.safe_load(prompts.read_text())
    assert [len(item) for item in items[1:]] == [7, 10]
    rows = list(read(prompts))
    assert all(isinstance(row, LocatedRequest) for row in rows), rows
    assert len(rows) == 3
    schema = json.loads((tmp_path / SCHEMA).read_text())
    assert prompts.read_text().startswith(f"# yaml-language-server: $schema={SCHEMA}\n")
    Draft202012Validator(schema).validate(items)
    with pytest.raises(ValidationError):
        Draft202012Validator(schema).validate([*items, {"promt": "x"}])


def test_settings_that_are_commented_out_are_the_defaults(tmp_path: Path) -> None:
    write_files(tmp_path, SCHEMA_TEXT)
    settings = tmp_path / SETTINGS
    text = uncommented(settings.read_text())
    assert text.count("\n# ") == 6  # the headings
    settings.write_text(text)
    values = read_flag_values(settings, typer.Context(COMMAND.commands["run"])).values
    assert len(values) > 15
    result = CliRunner().invoke(app, ["run", "--config", str(settings), "--prompt", "x", "--dry-run"])
    assert result.exit_code == 0, result.output
    defaults = {name: parameter.default for name, parameter in inspect.signature(run).parameters.items()}
    given = {**defaults, **{name: value for name, value in values.items() if isinstance(value, str)}}
    for name in ("seed", "quality", "crf", "max_restarts"):
        given[name] = int(given[name])
    assert run_config(given) == RunConfig()


def test_no_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / SETTINGS).write_text("mine")
    with pytest.raises(UsageError, match=r" has omni-gen\.yaml already; nothing was written"):
        write_files(tmp_path, SCHEMA_TEXT)
    assert [path.name for path in tmp_path.iterdir()] == [SETTINGS]
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OutputFolderError, match=r"cannot be written: (Not a directory|File exists)"):
        write_files(tmp_path / "file" / "x", SCHEMA_TEXT)
