"""`omni-gen run` as a process: files, rows, exit codes."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from PIL import Image

from tests.cli.conftest import Start, manifest_rows, omni_gen

NULL = ["--runner", "omni_cli.worker.null:NullRunner", "--progress", "none"]
PROMPTS = [
    {"id": "clip", "prompt": "a red circle moving right on a blue background", "num_frames": 5, "seed": 3},
    {"id": "still", "prompt": "a green square on a white background", "num_frames": 1, "seed": 4, "num_outputs": 2},
    {"id": "array", "prompt": "a blue triangle on a black background", "num_frames": 5, "seed": 5, "format": "npy"},
    {"id": "late", "prompt": "a white circle growing on a purple background", "num_frames": 5, "seed": 6},
]


def write_prompts(path: Path, requests: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(request) + "\n" for request in requests), encoding="utf-8")
    return path


def slow_prompts(path: Path, count: int, seconds: float) -> Path:
    rows = [
        {"id": f"r{i:02d}", "prompt": "x", "num_frames": 1, "extra": {"forward_seconds": seconds}} for i in range(count)
    ]
    return write_prompts(path, rows)


def decoded(path: Path) -> "np.ndarray[Any, np.dtype[np.uint8]]":
    if path.suffix == ".npy":
        return np.load(path)
    if path.suffix == ".mp4":
        with av.open(path) as container:
            return np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)])
    with Image.open(path) as image:
        return np.asarray(image)


RECORDER = """
import os, sys

def record(event, arguments):
    if event == "import" and arguments[0] in ("torch", "diffusers", "transformers"):
        file = os.open(os.path.join(os.environ["IMPORTED"], "imported"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(file, f"{arguments[0]}\\n".encode())
        os.close(file)

sys.addaudithook(record)
"""


def recording_imports(folder: Path) -> dict[str, str]:
    """Return an environment in which every Python process records in `folder` which of the libraries it imports."""
    (folder / "sitecustomize.py").write_text(RECORDER)
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "IMPORTED": str(folder)}


def libraries_imported(folder: Path) -> set[str]:
    """Return what any process with the environment of `recording_imports` has imported since the last call."""
    record = folder / "imported"
    names = set(record.read_text().split()) if record.exists() else set()
    record.unlink(missing_ok=True)
    return names


def arm(root: Path, name: str) -> list[str | Path]:
    """Return the arguments of the run of an arm."""
    steps = ("--num-inference-steps", "2")
    return ["run", root / "prompts.jsonl", "-o", root / name, "--progress", "none", *steps]


@pytest.fixture(scope="module")
def arms(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Render the same requests in every execution mode with the demo model; return the output folders."""
    root = tmp_path_factory.mktemp("arms")
    write_prompts(root / "prompts.jsonl", PROMPTS)
    flags = {
        "async": [],
        "no-async": ["--no-async"],
        "inline": ["--executor", "inline"],
        "batched": ["--batch-size", "2"],
        "float": ["--no-device-postprocess"],
    }
    environment = recording_imports(root)
    for name, extra in flags.items():
        result = omni_gen(*arm(root, name), *extra, env=environment)
        assert result.returncode == 0, result.stderr
    assert libraries_imported(root) == {"torch", "diffusers", "transformers"}
    return {name: root / name for name in flags}


def test_every_request_has_a_row_and_its_files(arms: dict[str, Path]) -> None:
    rows = {row["id"]: row for row in manifest_rows(arms["async"])}
    assert {id_: [file["path"] for file in row["files"]] for id_, row in rows.items()} == {
        "clip": ["clip.mp4"],
        "still": ["still-0.png", "still-1.png"],
        "array": ["array.npy"],
        "late": ["late.mp4"],
    }
    assert rows["still"]["seeds"] == [4, 5]
    assert rows["clip"]["files"][0] | {"sha256": "", "bytes": 0} == {
        "path": "clip.mp4", "sha256": "", "bytes": 0, "width": 64, "height": 64, "frames": 5, "fps": 8.0,
    }  # fmt: skip
    assert decoded(arms["async"] / "clip.mp4").shape == (5, 64, 64, 3)
    assert decoded(arms["async"] / "array.npy").shape == (5, 64, 64, 3)
    assert decoded(arms["async"] / "still-1.png").shape == (64, 64, 3)
    left = {path.name for path in arms["async"].iterdir() if not path.name.startswith(".omni-gen")}
    assert left == {"manifest.jsonl", "clip.mp4", "still-0.png", "still-1.png", "array.npy", "late.mp4"}


@pytest.mark.parametrize("arm", ["no-async", "inline", "float"])
def test_files_are_identical_whatever_the_execution_mode(arms: dict[str, Path], arm: str) -> None:
    for name in ("clip.mp4", "still-0.png", "still-1.png", "late.mp4"):
        assert (arms["async"] / name).read_bytes() == (arms[arm] / name).read_bytes(), name
    array, expected = (np.load(arms[name] / "array.npy") for name in (arm, "async"))
    assert array.dtype == ("float32" if arm == "float" else "uint8")
    np.testing.assert_array_equal(np.round(array * 255) if arm == "float" else array, expected)


def test_batched_pixels_are_within_one_level_of_single_ones(arms: dict[str, Path]) -> None:
    for name in ("still-0.png", "still-1.png", "array.npy"):
        alone, batched = (decoded(arms[arm] / name).astype(int) for arm in ("async", "batched"))
        assert np.abs(alone - batched).max() <= 1, name
    assert np.abs(np.diff([decoded(arms["async"] / f"still-{i}.png").astype(int) for i in (0, 1)], axis=0)).max() > 1


def test_batched_requests_share_a_forward(arms: dict[str, Path]) -> None:
    forwards = {row["id"]: row["timings"]["forward"] for row in manifest_rows(arms["batched"])}
    assert forwards["clip"] == forwards["array"]


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("nothing to do", 0), ("nothing to do, inline", 0), ("plan", 0), ("plan of a new run", 0), ("missing model", 3),
        ("validate", 0), ("status", 0),
    ],
)  # fmt: skip
def test_what_renders_nothing_starts_no_process_with_the_libraries(
    arms: dict[str, Path], tmp_path: Path, command: str, code: int
) -> None:
    root = arms["async"].parent
    environment = recording_imports(tmp_path)
    arguments: list[str | Path] = {
        "nothing to do": arm(root, "async"),
        "nothing to do, inline": [*arm(root, "inline"), "--executor", "inline"],
        "plan": [*arm(root, "async"), "--dry-run"],
        "plan of a new run": [*arm(root, str(tmp_path / "new")), "--dry-run"],
        "missing model": [*arm(root, "async"), "-m", "./nothere"],
        "validate": ["validate", root / "prompts.jsonl", "-m", "demo"],
        "status": ["status", arms["async"], root / "prompts.jsonl"],
    }[command]
    before = manifest_rows(arms["async"])
    done = omni_gen(*arguments, env=environment)
    assert (done.returncode, libraries_imported(tmp_path)) == (code, set()), done.stderr
    assert manifest_rows(arms["async"]) == before


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    return slow_prompts(tmp_path / "prompts.jsonl", 4, 0.0)


def test_a_second_run_renders_only_a_deleted_file(prompts: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = omni_gen("run", prompts, "-o", out, *NULL, "--print", "paths")
    assert first.returncode == 0, first.stderr
    assert sorted(first.stdout.split()) == [str(out / f"r0{i}.png") for i in range(4)]
    second = omni_gen("run", prompts, "-o", out, *NULL, "--print", "paths")
    assert (second.returncode, second.stdout) == (0, "")
    (out / "r02.png").unlink()
    mended = omni_gen("run", prompts, "-o", out, *NULL, "--print", "paths")
    assert mended.stdout.split() == [str(out / "r02.png")]
    assert sorted(row["id"] for row in manifest_rows(out)) == ["r00", "r01", "r02", "r03"]
    over = omni_gen("run", prompts, "-o", out, *NULL, "--print", "paths", "--overwrite")
    assert len(over.stdout.split()) == 4


def test_a_run_with_nothing_to_do_does_not_wait_for_the_weights(prompts: Path, tmp_path: Path) -> None:
    args = ["run", prompts, "-o", tmp_path / "out", "--runner", "tests.runners:Forthcoming", "--progress", "plain"]
    assert omni_gen(*args).returncode == 0
    second = omni_gen(*args, env={**os.environ, "HANG": "1"})
    assert second.returncode == 0
    assert "4 already done" in second.stderr


def test_a_run_after_a_kill_completes_every_request_once(start: Start, tmp_path: Path) -> None:
    prompts, out = slow_prompts(tmp_path / "p.jsonl", 12, 0.1), tmp_path / "out"
    run = start("run", prompts, "-o", out, *NULL, "--print", "paths")
    assert run.stdout is not None
    for _ in range(4):
        run.stdout.readline()
    run.kill()
    run.wait()
    done = len(manifest_rows(out))
    assert 4 <= done < 12
    second = omni_gen("run", prompts, "-o", out, *NULL, "--print", "paths")
    assert second.returncode == 0, second.stderr
    assert len(second.stdout.split()) == 12 - done
    rows = manifest_rows(out)
    assert sorted(row["id"] for row in rows) == [f"r{i:02d}" for i in range(12)]
    assert all(decoded(out / row["files"][0]["path"]).shape == (64, 64, 3) for row in rows)
    assert not [path for path in out.iterdir() if path.name.endswith(".tmp")]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_finishes_computed_outputs_and_sets_the_exit_code(
    start: Start, tmp_path: Path, number: int, code: int
) -> None:
    prompts, out = slow_prompts(tmp_path / "p.jsonl", 12, 0.2), tmp_path / "out"
    run = start("run", prompts, "-o", out, *NULL[:2], "--progress", "json", "--print", "paths")
    assert run.stdout is not None
    run.stdout.readline()
    run.send_signal(number)
    _, stderr = run.communicate(timeout=60)
    assert run.returncode == code
    finished = json.loads(stderr.splitlines()[-1])
    assert (finished["event"], finished["exit_code"]) == ("run_finished", code)
    rows = manifest_rows(out)
    assert len(rows) == finished["done"] < 12
    assert finished["done"] + finished["cancelled"] + finished["not_run"] == 12
    assert {row["status"] for row in rows} == {"done"}
    assert omni_gen("run", prompts, "-o", out, *NULL, "--limit", "12").returncode == 0
    assert len(manifest_rows(out)) == 12


def test_a_second_signal_exits_at_once(start: Start, tmp_path: Path) -> None:
    prompts = slow_prompts(tmp_path / "p.jsonl", 3, 30.0)
    run = start("run", prompts, "-o", tmp_path / "out", *NULL[:2], "--progress", "json")
    assert run.stderr is not None
    assert any("forward_started" in line for line in run.stderr)
    run.send_signal(signal.SIGINT)
    assert any("run_stopping" in line for line in run.stderr)
    run.send_signal(signal.SIGINT)
    run.wait(timeout=10)
    assert run.returncode == 130


def test_a_signal_while_loading_ends_the_run_at_once(start: Start, tmp_path: Path) -> None:
    prompts = slow_prompts(tmp_path / "p.jsonl", 3, 0.0)
    run = start("run", prompts, "-o", tmp_path / "out", "--runner", "tests.runners:NeverLoads", "--progress", "json")
    assert run.stderr is not None
    assert any("for ever" in line for line in run.stderr)
    run.send_signal(signal.SIGINT)
    rest = run.stderr.read()
    assert run.wait(timeout=10) == 130
    assert json.loads(rest.splitlines()[-1])["event"] == "run_finished"


def test_a_failed_request_stops_the_run_only_with_fail_fast(tmp_path: Path) -> None:
    rows = [{"id": f"r{i}", "prompt": "fail" if i == 1 else "x", "num_frames": 1} for i in range(12)]
    prompts = write_prompts(tmp_path / "p.jsonl", rows)
    picky = ["--runner", "tests.runners:Picky", "--progress", "json"]
    result = omni_gen("run", prompts, "-o", tmp_path / "all", *picky)
    assert result.returncode == 1
    statuses = {row["id"]: row["status"] for row in manifest_rows(tmp_path / "all")}
    assert statuses.pop("r1") == "failed"
    assert set(statuses.values()) == {"done"}
    assert len(statuses) == 11
    error = next(row["error"] for row in manifest_rows(tmp_path / "all") if row["id"] == "r1")
    assert error == {"kind": "forward_failed", "message": "ValueError: this prompt cannot be drawn"}
    fast = omni_gen("run", prompts, "-o", tmp_path / "fast", *picky, "--fail-fast")
    assert fast.returncode == 1
    assert len(manifest_rows(tmp_path / "fast")) < 12
    # The next run renders the failed request second, and no finished one.
    assert omni_gen("run", prompts, "-o", tmp_path / "all", *NULL).returncode == 0


def test_a_second_run_in_the_same_folder_is_refused(start: Start, tmp_path: Path) -> None:
    prompts, out = slow_prompts(tmp_path / "p.jsonl", 50, 0.2), tmp_path / "out"
    run = start("run", prompts, "-o", out, *NULL, "--print", "paths")
    assert run.stdout is not None
    run.stdout.readline()
    second = omni_gen("run", prompts, "-o", out, *NULL)
    assert second.returncode == 2
    assert str(run.pid) in second.stderr


@pytest.fixture
def poisoned(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Return an environment in which importing torch is recorded and fails the test."""
    trap = tmp_path / "trap"
    trap.mkdir()
    (trap / "torch.py").write_text(
        f"open({str(tmp_path / 'imported')!r}, 'w').close()\nraise ImportError('no torch')\n"
    )
    yield {**os.environ, "PYTHONPATH": str(trap)}
    assert not (tmp_path / "imported").exists(), "torch was imported"


def test_ten_mistakes_are_ten_located_errors_without_torch(tmp_path: Path, poisoned: dict[str, str]) -> None:
    faults = [  # a row, and the text that its error must point at
        ('{"id": "a", "promt": "x"}', '"promt"'),
        ('{"id": "b", "prompt": "x", "height": 100}', "100"),
        ('{"id": "c", "prompt": "x", "num_frames": 8}', "8"),
        ('{"id": "c", "prompt": "x"}', '"c"'),
        ('{"id": "d", "prompt": "x", "output": "../x.png"}', '"../'),
        ('{"id": "e", "prompt": "x", "steps": "many"}', '"many'),
        ('{"id": "f", "prompt": "x", "seed": -1}', "-1"),
        ('{"id": "g", "prompt": "x", "format": "mpeg"}', '"mpeg'),
        ('{"id": "h", "prompt": "x", "num_frames": 1, "format": "mp4"}', '"mp4'),
        ('{"id": "i", "prompt": "x",}', ",}"),
    ]
    path = tmp_path / "bad.jsonl"
    path.write_text("\n".join(row for row, _ in faults))
    result = omni_gen("run", path, "-o", tmp_path / "out", env=poisoned)
    assert result.returncode == 2
    places = [line.split(": ")[0].removeprefix(str(path)) for line in result.stderr.splitlines()[:-1]]
    assert places == [f":{line}:{row.index(what) + 1}" for line, (row, what) in enumerate(faults, 1)]
    assert "nearest are 96 and 112" in result.stderr
    assert "nearest are 5 and 9" in result.stderr
    assert not (tmp_path / "out").exists()
    events = omni_gen("run", path, "-o", tmp_path / "out", "--progress", "json", env=poisoned).stderr.splitlines()
    assert [json.loads(line)["exit_code"] for line in events if line.startswith("{")] == [2]


@pytest.mark.parametrize("args", [["--help"], ["run", "--help"], ["--version"], ["info", "--no-devices"]])
def test_short_commands_do_not_import_torch(args: list[str], poisoned: dict[str, str]) -> None:
    assert omni_gen(*args, env=poisoned).returncode == 0


def test_an_unwritable_output_folder_is_refused_before_loading(
    prompts: Path, tmp_path: Path, poisoned: dict[str, str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    write_prompts(prompts, [{"id": "a", "prompt": "x"}])
    result = omni_gen("run", prompts, "-o", tmp_path / "file", env=poisoned)
    assert result.returncode == 2
    assert str(tmp_path / "file") in result.stderr


def test_standard_input_and_shards_cover_every_request_once(tmp_path: Path) -> None:
    rows = "".join(json.dumps({"id": f"s{i}", "prompt": "x", "num_frames": 1}) + "\n" for i in range(5))
    seen: list[str] = []
    for part in ("1/2", "2/2"):
        result = omni_gen("run", "-", "-o", tmp_path / part[0], *NULL, "--shard", part, "--print", "json", input=rows)
        assert result.returncode == 0, result.stderr
        seen += [json.loads(line)["id"] for line in result.stdout.splitlines()]
    assert sorted(seen) == ["s0", "s1", "s2", "s3", "s4"]


def test_a_missing_model_exits_with_3_and_a_reason(prompts: Path, tmp_path: Path) -> None:
    result = omni_gen(
        "run", prompts, "-o", tmp_path / "out", "--model", str(tmp_path / "nothing"), "--progress", "none"
    )
    assert result.returncode == 3
    assert str(tmp_path / "nothing") in result.stderr
    assert "Traceback" not in result.stderr


def test_the_command_line_overrides_the_config_file(prompts: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(f"output-dir: {tmp_path / 'from-config'}\nlimit: 2\nprogress: none\n")
    result = omni_gen("run", prompts, *NULL[:2], "--config", config, "--print", "paths", "--limit", "1")
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == [str(tmp_path / "from-config" / "r00.png")]
    config.write_text("outputdir: x\nasync: maybe\n")
    result = omni_gen("run", prompts, "--config", config)
    assert result.returncode == 2
    assert 'did you mean "output_dir"' in result.stderr


@pytest.mark.parametrize("source", ["json", "yaml"])
def test_json_and_deploy_file_switch_device_postprocess_off(prompts: Path, tmp_path: Path, source: str) -> None:
    deploy = tmp_path / "deploy.yaml"
    deploy.write_text("stages:\n  - stage_id: 0\n    video_output_transport:\n      enable_device_postprocess: false\n")
    flags = {
        "json": ["--video-output-transport", '{"enable_device_postprocess": false}'],
        "yaml": ["--deploy-config", deploy],
    }
    result = omni_gen("run", prompts, "-o", tmp_path / "out", *NULL[:2], "--progress", "json", *flags[source])
    moved = [json.loads(line)["bytes"] for line in result.stderr.splitlines() if "output_ready" in line]
    assert moved == [64 * 64 * 3 * 4] * 4


@pytest.mark.parametrize(
    "mode", [(), ("--no-async",), ("--step-execution",), ("--step-execution", "--no-async"), ("--executor", "inline")]
)
def test_outputs_that_do_not_fit_the_ring_at_once_pass_in_every_mode(tmp_path: Path, mode: tuple[str, ...]) -> None:
    prompts = tmp_path / "p.jsonl"
    row = {"prompt": "x", "num_frames": 1, "height": 1024, "width": 1024}
    prompts.write_text("".join(json.dumps({**row, "id": f"r{n}", "num_outputs": n % 2 + 1}) + "\n" for n in range(4)))
    flags = (*NULL, "--batch-size", "4", "--max-inflight-bytes", "4M", "--png-compression", "0")
    result = omni_gen("run", prompts, "-o", tmp_path / "out", *flags, *mode)
    assert result.returncode == 0, result.stderr
    assert len(list((tmp_path / "out").glob("*.png"))) == 6
