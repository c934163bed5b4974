"""Shards of one list in one folder, at the same time, killed and run again with another number of shards."""

import json
import signal
from pathlib import Path

import pytest
import yaml

from omni_cli.journal import read_rows
from tests.cli.conftest import Start, omni_gen

NULL = ("--runner", "omni_cli.worker.null:NullRunner", "--num-frames", "1", "--height", "16", "--width", "16")
EXAMPLES = Path(__file__).parent.parent.parent / "docs" / "examples"


def write_list(path: Path, count: int) -> Path:
    rows = [{"prompt": f"picture {n}", "extra": {"forward_seconds": 0.1}} for n in range(count)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_shards_at_once_make_one_complete_set_though_one_is_killed(tmp_path: Path, start: Start) -> None:
    prompts, out = write_list(tmp_path / "p.jsonl", 40), tmp_path / "out"
    processes = [
        start("run", prompts, "-o", out, *NULL, "--workers", "1", "--progress", "json", "--shard", f"{number}/2")
        for number in range(2)
    ]
    killed = processes[1]
    assert killed.stderr is not None
    while json.loads(killed.stderr.readline())["event"] != "request_finished":
        pass
    killed.send_signal(signal.SIGKILL)
    assert processes[0].communicate(timeout=120) is not None
    assert processes[0].returncode == 0
    killed.communicate(timeout=60)
    before = {row.id: row.files[0].sha256 for row in read_rows(out / "manifest.jsonl") if row.status == "done"}
    assert 0 < len(before) < 40

    # Another number of shards deals out what is missing anew; a line on top of the list moves no request.
    prompts.write_text(json.dumps({"prompt": "first", "extra": {"forward_seconds": 0.1}}) + "\n" + prompts.read_text())
    for number in range(3):
        result = omni_gen("run", prompts, "-o", out, *NULL, "--shard", f"{number}/3", "--progress", "none")
        assert result.returncode == 0, result.stderr
    rows = {row.id: row for row in read_rows(out / "manifest.jsonl")}
    assert len(rows) == 41
    assert {id_: rows[id_].files[0].sha256 for id_ in before} == before
    assert len(list(out.glob("*.png"))) == 41
    status = omni_gen("status", out, prompts, "--json", "--verify-hashes")
    totals = json.loads(status.stdout.splitlines()[-1])
    assert (totals["done"], totals["missing"], totals["orphaned"], totals["complete"]) == (41, 0, 0, True)

    whole = omni_gen("run", prompts, "-o", out, *NULL, "--progress", "plain")
    assert "0 done, 41 already done" in whole.stderr
    assert not list(out.glob("manifest.*-of-*"))
    assert len(list(read_rows(out / "manifest.jsonl"))) == 41


@pytest.mark.parametrize("name", ["kubernetes.yaml", "github-actions.yaml"])
def test_examples_are_what_their_schedulers_read(name: str) -> None:
    (document,) = yaml.safe_load_all((EXAMPLES / name).read_text())
    if name == "kubernetes.yaml":
        spec = document["spec"]
        (container,) = spec["template"]["spec"]["containers"]
        assert (document["apiVersion"], document["kind"], spec["completionMode"]) == ("batch/v1", "Job", "Indexed")
        count = {entry["name"]: entry["value"] for entry in container["env"]}["JOB_COMPLETIONS"]
        assert int(count) == spec["completions"] == spec["parallelism"]
        assert "--shard=auto" in container["args"]
    else:
        job = document["jobs"]["render"]
        shards = job["strategy"]["matrix"]["shard"]
        (step,) = [step["run"] for step in job["steps"] if "--shard" in step.get("run", "")]
        assert f"--shard ${{{{ matrix.shard }}}}/{len(shards)}" in step
        assert sorted(shards) == list(range(len(shards)))
