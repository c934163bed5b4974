"""Notes of a whole run: in the rows, once per kind on stderr, and counted in the summary."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests import tiny
from tests.cli.conftest import manifest_rows, omni_gen

RUNNER = ["--runner", "tests.runners:Remarking"]
PROMPTS = ("bright", "dark", "plain", "bright")


def run(folder: Path, *flags: str, progress: str = "plain") -> tuple[int, dict[int, dict[str, Any]], str]:
    """Render one picture per prompt; return exit code, rows by index, and stderr."""
    prompts = folder / "prompts.jsonl"
    rows = [{"id": f"r{index}", "prompt": prompt, "num_frames": 1} for index, prompt in enumerate(PROMPTS)]
    prompts.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    done = omni_gen(
        "run", prompts, "-o", folder / "out", "--log-file", folder / "log", "--progress", progress, *RUNNER, *flags
    )
    return done.returncode, {row["index"]: row for row in manifest_rows(folder / "out")}, done.stderr


@pytest.mark.parametrize("flags", [(), ("--executor", "inline"), ("--workers", "2")], ids=str)
def test_each_kind_of_note_is_shown_once_and_counted(flags: tuple[str, ...], tmp_path: Path) -> None:
    code, rows, shown = run(tmp_path, *flags)
    assert code == 0, shown
    notes = {index: row["notes"] for index, row in rows.items()}
    assert notes == {0: ["odd 0"], 1: ["odd 1", "blackened: it"], 2: [], 3: ["odd 3"]}
    lines = shown.splitlines()
    assert sum("warning: r" in line and ": odd " in line for line in lines) == 1
    assert sum("warning: r1: blackened: it" in line for line in lines) == 1
    assert any("finished: 4 done, 3 with notes in " in line for line in lines)
    assert sum("noted in 3 rows: odd " in line for line in lines) == 1
    assert "omni-gen: noted in 1 row: blackened: it" in lines


@pytest.mark.parametrize("flags", [(), ("--executor", "inline"), ("--workers", "2")], ids=str)
def test_a_warning_of_loading_is_one_line_and_in_the_log_file(flags: tuple[str, ...], tmp_path: Path) -> None:
    _, _, shown = run(tmp_path, *flags)
    assert sum("warning: loading demo: an odd file" in line for line in shown.splitlines()) == 1
    assert "loading demo: an odd file" in (tmp_path / "log").read_text(encoding="utf-8")


def test_the_last_event_counts_the_rows_with_notes(tmp_path: Path) -> None:
    _, _, shown = run(tmp_path, progress="json")
    events = [json.loads(line) for line in shown.splitlines()]
    assert events[-1]["with_notes"] == 3
    notes = [event["text"] for event in events if event["event"] == "note" and event["level"] == "warning"]
    assert [note for note in notes if "odd file" not in note] == ["r0: odd 0", "r1: blackened: it"]


@pytest.mark.parametrize(
    "flags", [(), ("--no-device-postprocess",), ("--executor", "inline"), ("--no-async",)], ids=str
)
def test_fail_on_nsfw_fails_a_blackened_output_alone(flags: tuple[str, ...], tmp_path: Path) -> None:
    code, rows, shown = run(tmp_path, "--fail-on-nsfw", *flags)
    assert code == 1, shown
    assert [rows[index]["status"] for index in range(4)] == ["done", "failed", "done", "done"]
    assert rows[1]["error"]["kind"] == "nsfw_content"
    assert "--fail-on-nsfw" in rows[1]["error"]["message"]
    assert {path.name for path in (tmp_path / "out").glob("*.png")} == {"r0.png", "r2.png", "r3.png"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save the tiny pipeline whose safety checker finds every picture unsafe."""
    return tiny.save("blackening", tmp_path_factory.mktemp("model") / "blackening")


@pytest.mark.parametrize("fails", [False, True])
def test_a_real_pipeline_says_what_it_cut_and_blackened(fails: bool, model: Path, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    row = {"id": "a", "prompt": "word " * 300, "height": 32, "width": 64, "num_inference_steps": 1}
    prompts.write_text(json.dumps(row), encoding="utf-8")
    flags = ["--fail-on-nsfw"] if fails else []
    done = omni_gen("run", prompts, "-m", model, "-o", tmp_path / "out", "--progress", "plain", *flags)
    assert done.returncode == int(fails), done.stderr
    (result,) = manifest_rows(tmp_path / "out")
    if fails:
        assert result["error"]["kind"] == "nsfw_content"
        return
    blackened, cut = result["notes"]
    assert blackened.startswith("blackened: the safety checker")
    assert cut.startswith('prompt is cut: text_encoder reads 77 of 1502 tokens, the rest has no effect there: "')
    assert f"warning: a: {cut}" in done.stderr
    assert "1 done, 1 with notes" in done.stderr
