"""A prompt file that changes during a run: the run is of the file as it was checked."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omni_cli.prompts import file_snapshot
from tests.cli.conftest import Start, manifest_rows

NULL = ["--runner", "omni_cli.worker.null:NullRunner", "--progress", "json"]
SLOW = {"extra": {"forward_seconds": 0.2}}
COUNT = 6
PADDING = " " * 100_000 + "\n"
"""Blanks between rows, so that a run does not have the whole file in its buffers."""
CHANGED = "an edited prompt"

KINDS: dict[str, Callable[[list[dict[str, Any]]], str]] = {
    "jsonl": lambda rows: "".join(json.dumps(row) + "\n" + PADDING for row in rows),
    "json": lambda rows: "[" + ("," + PADDING).join(map(json.dumps, rows)) + "]",
    "csv": lambda rows: (
        "id,prompt,extra\n"
        + "".join(
            '{},{},"{}"\n{}'.format(row["id"], row["prompt"], '{""forward_seconds"": 0.2}', PADDING) for row in rows
        )
    ),
}


def rows_of(prompts: list[str]) -> list[dict[str, Any]]:
    return [{"id": f"r{n}", "prompt": prompt, **SLOW} for n, prompt in enumerate(prompts)]


def append(path: Path) -> None:
    with path.open("a") as file:
        file.write(KINDS["jsonl"]([{"id": "appended", "prompt": CHANGED}]))


def truncate(path: Path) -> None:
    with path.open("r+") as file:
        file.truncate(path.stat().st_size // 2)


def edit(path: Path) -> None:
    with path.open("r+b") as file:
        content = file.read()
        file.seek(content.rindex(b"row"))
        file.write(b"ROW")


def break_syntax(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(b'"}]{[\n,' * 10)


def replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_text("no prompt file at all {")
    other.replace(path)


def delete(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("jsonl", append),
        ("jsonl", edit),
        ("csv", truncate),
        ("json", break_syntax),
        ("jsonl", replace),
        ("json", delete),
    ],
)
def test_the_run_is_of_the_file_as_it_was_checked(
    kind: str, change: Callable[[Path], None], start: Start, tmp_path: Path
) -> None:
    path = tmp_path / f"prompts.{kind}"
    path.write_text(KINDS[kind](rows_of([f"row {n}" for n in range(COUNT)])))
    process = start("run", path, "-o", tmp_path / "out", *NULL, "--lookahead", "0")
    assert process.stderr is not None
    while json.loads(process.stderr.readline())["event"] != "request_finished":
        pass
    change(path)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "nothing was rendered" not in err
    rows = manifest_rows(tmp_path / "out")
    assert {row["id"]: row["request"]["prompt"] for row in rows} == {f"r{n}": f"row {n}" for n in range(COUNT)}


@pytest.mark.parametrize(("change", "reason"), [(truncate, "was cut short"), (edit, "was changed")])
def test_a_change_of_a_file_that_is_too_long_to_copy_ends_the_run_with_what_was_rendered(
    change: Callable[[Path], None], reason: str, start: Start, tmp_path: Path
) -> None:
    path = tmp_path / "prompts.jsonl"
    read_ahead = 12
    rows = [json.dumps(row) + "\n" for row in rows_of([f"row {n}" for n in range(read_ahead + COUNT)])]
    blank = " " * (file_snapshot.MEMORY_BYTES // 2 + 1) + "\n"
    path.write_text("".join([*rows[:read_ahead], blank, blank, *rows[read_ahead:]]))
    # More workers would read further ahead, past the change.
    flags = ["run", path, "-o", tmp_path / "out", *NULL, "--lookahead", "0", "--workers", "1"]
    process = start(*flags)
    assert process.stderr is not None
    while json.loads(process.stderr.readline())["event"] != "request_finished":
        pass
    change(path)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 3, err
    events = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
    assert [event["level"] for event in events if event["event"] == "note"] == ["warning"]
    assert (events[-1]["event"], events[-1]["exit_code"], events[-1]["done"]) == ("run_finished", 3, read_ahead)
    message = err.splitlines()[-1]
    assert reason in message
    assert f"{read_ahead} done of {len(rows)} requests, in " in message
    assert "run the same command again" in message
    assert "nothing was rendered" not in err
    path.write_text("".join([*rows[:read_ahead], rows[-1].replace("row", "new")]))
    process = start(*flags)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    last = json.loads(err.splitlines()[-1])
    assert (last["done"], last["skipped"]) == (1, read_ahead)
