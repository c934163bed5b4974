"""`omni-gen run` over a folder in which other lists are finished."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Start, manifest_rows, omni_gen
from tests.cli.test_run_stream import answer, ask, end, wait_for

NULL = ["--runner", "omni_cli.worker.null:NullRunner", "--executor", "inline", "--progress", "none"]
SMALL = ["--num-frames", "1", "--height", "16", "--width", "16"]


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    """Return a list of four prompts, which is rendered in `tmp_path / "out"`."""
    path = tmp_path / "list.txt"
    path.write_text("a red circle\na green square\na white triangle\na yellow circle\n")
    result = omni_gen("run", path, "-o", tmp_path / "out", *NULL, *SMALL)
    assert result.returncode == 0, result.stderr
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.png")}


def test_second_list_and_a_pipe_leave_what_is_finished(lines: Path, tmp_path: Path) -> None:
    out, before = tmp_path / "out", contents(tmp_path / "out")
    other = tmp_path / "other.txt"
    other.write_text("a white triangle\na blue square\n")
    assert omni_gen("run", other, "-o", out, *NULL, *SMALL).returncode == 0
    assert omni_gen("run", "-", "-o", out, *NULL, *SMALL, input="a black square\na blue square\n").returncode == 0
    assert before.items() < contents(out).items()
    assert len(contents(out)) == len(manifest_rows(out)) == 6


def test_line_put_on_top_is_the_only_new_request_of_the_plan(lines: Path, tmp_path: Path) -> None:
    lines.write_text("an orange square\n" + lines.read_text())
    plan = omni_gen("run", lines, "-o", tmp_path / "out", *NULL, *SMALL, "--dry-run")
    assert plan.returncode == 0
    assert "plan: 1 of 5 requests to render, 4 already done" in plan.stderr


def test_flag_that_changes_finished_requests_is_refused_and_explained(lines: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    args = ["run", lines, "-o", out, *NULL, *SMALL, "--guidance-scale", "2"]
    before, manifest = contents(out), (out / "manifest.jsonl").read_bytes()
    for extra in ([], ["--dry-run"]):
        refused = omni_gen(*args, *extra)
        assert refused.returncode == 2
        assert "4 requests are finished" in refused.stderr
        assert "and 1 more: guidance_scale: none → 2" in refused.stderr
    lines_of_plan = map(json.loads, omni_gen(*args, "--dry-run", "--print", "json").stdout.splitlines())
    changed = [line for line in lines_of_plan if line["plan"] == "request"]
    assert [(line["reason"], line["refused"], line["details"]) for line in changed] == [
        ("changed", True, ["guidance_scale: none → 2"])
    ] * 4
    kept = omni_gen(*args, "--keep-old")
    assert (kept.returncode, contents(out), (out / "manifest.jsonl").read_bytes()) == (0, before, manifest)
    assert omni_gen(*args, "--replace-changed").returncode == 0
    assert {row["request"]["guidance_scale"] for row in manifest_rows(out)} == {2.0}
    assert contents(out).keys() == before.keys()


def test_flags_that_contradict_are_refused(lines: Path, tmp_path: Path) -> None:
    both = omni_gen("run", lines, "-o", tmp_path / "out", *NULL, "--keep-old", "--overwrite")
    assert both.returncode == 2
    assert "contradict each other" in both.stderr


def test_row_of_a_pipe_that_would_replace_finished_work_is_rejected_alone(start: Start, tmp_path: Path) -> None:
    out, prompts = tmp_path / "out", tmp_path / "p.jsonl"
    rows = [{"id": name, "prompt": "x", "num_frames": 1, "seed": 1} for name in ("taken", "named")]
    prompts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert omni_gen("run", prompts, "-o", out, *NULL).returncode == 0
    before, rows = contents(out), manifest_rows(out)
    flags = [*NULL[:-2], "--progress", "json", "--print", "json"]
    process = start("run", "-", "-o", out, *flags)
    wait_for(process, "run_started")
    ask(process, id="taken", prompt="y", seed=1)
    row = answer(process)
    assert (row["id"], row["status"], row["error"]["kind"]) == ("taken", "failed", "invalid_request")
    assert 'prompt: "x" → "y"' in row["error"]["message"]
    ask(process, id="other", output="Named.PNG", prompt="z")
    ask(process, id="new")
    row = answer(process)
    assert (row["id"], row["status"]) == ("other", "failed")
    assert '"Named.PNG" is the finished output of "named"' in row["error"]["message"]
    assert answer(process)["id"] == "new"
    code, _, _ = end(process)
    assert code == 1
    assert manifest_rows(out)[: len(rows)] == rows
    assert before.items() <= contents(out).items()
