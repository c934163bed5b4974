"""`omni-gen schema`: rows and events that are written are valid, and editors get a text for every field."""

import json
from typing import Any, get_args

import pytest
import typer
from jsonschema import Draft202012Validator
from msgspec.structs import replace
from typer.testing import CliRunner

from omni_cli.cli.app import app
from omni_cli.events import AnyEvent, ForwardDone, ModelLoading, Note, RequestFinished, RunFinished, RunStarted
from omni_cli.prompts import FIELDS
from omni_cli.request import MAX_SEED, Adapter, GenerationRequest, Interval, OutputFile, Provenance, Starts, to_json
from tests.factories import result

FILE = OutputFile(path="a.mp4", sha256="", bytes=1, width=64, height=32, frames=97, fps=24.0, sample_rate=8000)
ROW = result(
    "a",
    files=(FILE,),
    seeds=(5, MAX_SEED),
    request=GenerationRequest(id="a", prompt="x", seed=MAX_SEED, lora=[Adapter(path="b")], meta={"seed": 5}),
    starts=Starts(run=1.5, worker=0, forward=1.5, d2h=2.5),
    made=Provenance(device="cpu", threads=2),
)
EVENTS = [
    RunStarted(at=0.5, total=None, skipped=0, model="demo", output_dir="o"),
    ModelLoading(at=0.5, worker=0, what="torch"),
    ForwardDone(at=0.5, worker=0, ids=("a",), forward=Interval(0.5, 1.0)),
    RequestFinished(at=0.5, result=ROW),
    Note(at=0.5, level="info", text="t"),
    RunFinished(
        at=0.5, exit_code=0, done=1, failed=0, cancelled=0, skipped=0, not_run=0,
        seconds=1.0, output_hidden=None, device_idle=0.5, longest_gap=None,
    ),
]  # fmt: skip


def schema(what: str) -> dict[str, Any]:
    printed = CliRunner().invoke(app, ["schema", what])
    assert printed.exit_code == 0, printed.output
    read: dict[str, Any] = json.loads(printed.stdout)
    Draft202012Validator.check_schema(read)
    return read


@pytest.mark.parametrize("row", [ROW, result("b", "failed"), result("c", "cancelled")], ids=lambda row: row.status)
def test_rows_of_the_manifest_are_valid(row: Any) -> None:
    validator = Draft202012Validator(schema("manifest"))
    written = json.loads(to_json(row))
    validator.validate(written)
    assert not validator.is_valid({**written, "status": "maybe"})
    assert not validator.is_valid({key: value for key, value in written.items() if key != "fingerprint"})


def test_events_are_valid() -> None:
    read = schema("events")
    assert len(read["anyOf"]) == len(get_args(AnyEvent))
    validator = Draft202012Validator(read)
    for event in EVENTS:
        validator.validate(json.loads(to_json(event)))
    assert not validator.is_valid({"event": "no_such_event", "at": 0.5})
    assert not validator.is_valid(json.loads(to_json(replace(EVENTS[4], level=5))))


def test_every_field_has_a_text_for_editors() -> None:
    properties = schema("prompts")["$defs"]["request"]["properties"]
    assert not [name for name in FIELDS if not properties[name]["description"]]
    flags: Any = typer.main.get_command(app)
    help_of = {option.name: option.help for option in flags.commands["run"].params}
    assert properties["num_frames"]["description"] == help_of["num_frames"]
    assert properties["format"]["description"] == help_of["format_"]


def test_descriptions_are_one_line() -> None:
    for what in ("prompts", "manifest", "events"):
        assert "\\n" not in json.dumps(schema(what))
