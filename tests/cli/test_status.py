"""`omni-gen status`: what is done, failed, damaged, missing and orphaned, also while a run is writing."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Start, omni_gen

NULL = ["--runner", "omni_cli.worker.null:NullRunner"]


def write_prompts(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def status(*args: str | Path) -> tuple[int, dict[str, Any], list[dict[str, Any]]]:
    """Run `status --json`; return its exit code, the totals and the lines before them."""
    ended = omni_gen("status", *args, "--json")
    *lines, totals = map(json.loads, ended.stdout.splitlines())
    assert totals.pop("status") == "totals"
    return ended.returncode, totals, lines


@pytest.fixture
def rendered(tmp_path: Path) -> tuple[Path, Path]:
    """Return a folder with four done requests and a failed one, and its prompt file."""
    rows = [{"id": f"r{n}", "prompt": "x", "num_frames": 1, "seed": n} for n in range(4)]
    rows.append({"id": "broken", "prompt": "x", "num_frames": 1, "extra": {"forward_seconds": "no number"}})
    prompts = write_prompts(tmp_path / "prompts.jsonl", rows)
    ended = omni_gen("run", prompts, "-o", tmp_path / "out", *NULL)
    assert ended.returncode == 1, ended.stderr
    return tmp_path / "out", prompts


def test_each_request_and_file_that_is_not_in_order_is_a_line(rendered: tuple[Path, Path], tmp_path: Path) -> None:
    out, prompts = rendered
    (out / "r1.png").unlink()
    (out / "r2.png").write_bytes(b"cut short")
    (out / "sub").mkdir()
    (out / "sub" / "old\x1b[31m.png").write_bytes(b"12345")
    (out / ".hidden").touch()
    (out / ".r9.png.0123456789abcdef.omni-tmp").touch()
    (out / "r3.preview.png").touch()
    more = write_prompts(
        tmp_path / "more.jsonl", [*map(json.loads, prompts.read_text().splitlines()), {"id": "new", "prompt": "x"}]
    )
    code, totals, lines = status(out, more)
    assert code == 1
    size = len(b"cut short")
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        by_kind.setdefault(line.pop("status"), []).append(line)
    assert [(line["id"], line["kind"], line["model"]) for line in by_kind["failed"]] == [
        ("broken", "forward_failed", "demo")
    ]
    assert [(line["path"], line["fault"].split(",")[0]) for line in by_kind["damaged"]] == [
        ("r1.png", "is missing"),
        ("r2.png", f"has {size} bytes"),
    ]
    assert by_kind["missing"] == [{"id": "broken", "line": 5}, {"id": "new", "line": 6}]
    assert by_kind["orphaned"] == [{"path": "sub/old\x1b[31m.png", "bytes": 5}]
    assert totals == {
        "version": 1,
        "output_dir": str(out),
        "complete": False,
        "done": 2,
        "failed": 1,
        "cancelled": 0,
        "damaged": 2,
        "requests": 6,
        "missing": 2,
        "orphaned": 1,
        "orphaned_bytes": 5,
        "models": {"demo": {"done": 2, "failed": 1, "cancelled": 0, "damaged": 2}},
        "running": None,
    }
    people = omni_gen("status", out, more)
    assert people.returncode == 1
    assert f"{out}: 2 done, 1 failed, 2 damaged, 2 missing of 6, 1 file orphaned" in people.stdout
    assert "\x1b" not in people.stdout, "a name does not act on the terminal"
    assert "  new (line 6)\n" in people.stdout


def test_a_complete_folder_exits_with_0_and_hashes_are_compared_on_demand(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "p.jsonl", [{"id": "a", "prompt": "x", "num_frames": 1, "num_outputs": 2}])
    out = tmp_path / "out"
    assert omni_gen("run", prompts, "-o", out, *NULL).returncode == 0
    before = {path: path.stat().st_mtime_ns for path in (out, *out.iterdir())}
    assert status(out)[0] == 0
    assert status(out / "manifest.jsonl", prompts, "--verify-hashes")[0] == 0
    assert {path: path.stat().st_mtime_ns for path in (out, *out.iterdir())} == before, "nothing is written"
    content = (out / "a-0.png").read_bytes()
    (out / "a-0.png").write_bytes(content[:-1] + b"?")
    assert status(out)[0] == 0
    code, totals, lines = status(out, "--verify-hashes")
    assert (code, totals["damaged"], lines[0]["path"]) == (1, 1, "a-0.png")


def test_a_folder_of_frames_is_known_as_one(tmp_path: Path) -> None:
    row = {"id": "clip", "prompt": "x", "num_frames": 3, "format": "frames"}
    prompts = write_prompts(tmp_path / "p.jsonl", [row])
    out = tmp_path / "out"
    assert omni_gen("run", prompts, "-o", out, *NULL).returncode == 0
    assert status(out, prompts)[:1] == (0,)
    frame = next(path for path in out.rglob("*.png"))
    frame.unlink()
    code, totals, lines = status(out)
    assert (code, totals["orphaned"], lines[0]["status"]) == (1, 0, "damaged")


def test_a_folder_without_a_manifest_has_everything_missing_or_is_refused(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "p.jsonl", [{"prompt": "x"}, {"image": "a.png"}, {}])
    code, totals, _ = status(tmp_path / "none", prompts)
    assert (code, totals["missing"], totals["requests"]) == (1, 3, 3), "a flag of the run may give the prompt"
    ended = omni_gen("status", tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "has no manifest.jsonl" in ended.stderr


def test_mistakes_of_the_prompt_file_are_reported(rendered: tuple[Path, Path], tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "bad.jsonl", [{"promt": "x"}, {"seed": -1, "prompt": "x"}])
    ended = omni_gen("status", rendered[0], prompts)
    assert ended.returncode == 2
    assert 'did you mean "prompt"' in ended.stderr
    assert "bad.jsonl:2" in ended.stderr


def test_a_running_run_is_named_and_its_files_are_not_orphaned(start: Start, tmp_path: Path) -> None:
    rows = [{"id": f"r{n}", "prompt": "x", "num_frames": 1, "extra": {"forward_seconds": 0.1}} for n in range(40)]
    prompts = write_prompts(tmp_path / "p.jsonl", rows)
    out = tmp_path / "out"
    process = start("run", prompts, "-o", out, *NULL, "--progress", "json", "--preview-every", "1")
    assert process.stderr is not None
    while json.loads(process.stderr.readline())["event"] != "request_finished":
        pass
    (out / "placed before its row.png").touch()
    os.utime(out / "r0.png")
    code, totals, _ = status(out, prompts)
    assert (code, totals["failed"], totals["damaged"], totals["orphaned"]) == (1, 0, 0, 0)
    assert totals["running"]["pid"] == process.pid
    assert totals["done"] >= 1
    assert totals["missing"] <= 39
    assert process.poll() is None, "the run goes on beside it"
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    _, totals, lines = status(out, prompts)
    assert totals["running"] is None
    assert "placed before its row.png" in [line["path"] for line in lines if line["status"] == "orphaned"]


def test_torch_is_not_imported(rendered: tuple[Path, Path]) -> None:
    program = (
        "import sys\nfrom omni_cli.cli.app import app\n"
        f"app(['status', {str(rendered[0])!r}, {str(rendered[1])!r}], standalone_mode=False)\n"
        "assert not {'torch', 'diffusers'} & sys.modules.keys()\nprint('checked')\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert ended.stdout.endswith("checked\n"), ended.stderr
