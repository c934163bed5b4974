"""`omni-gen run` into folders that lack things: system calls, permissions for others, a folder of temporary files."""

import errno
import json
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import COMMAND, Start, manifest_rows, omni_gen

NULL = ["--runner", "omni_cli.worker.null:NullRunner", "--progress", "plain"]
SOURCE = Path(__file__).parent.parent / "limited_filesystem.c"


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that makes system calls fail; the test is skipped where there is no compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("a C compiler is needed")
    target = tmp_path_factory.mktemp("limited") / "limited.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(target), str(SOURCE), "-ldl"], check=True)
    return target


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    path = tmp_path / "p.jsonl"
    path.write_text("".join(json.dumps({"id": f"r{n}", "prompt": "x", "num_frames": 1}) + "\n" for n in range(4)))
    return path


def limited(library: Path, folder: Path, after: Path | None = None, **calls: int) -> dict[str, str]:
    """Return an environment in which `calls` fail with these errnos below `folder`, once `after` exists."""
    wanted = ",".join(f"{call}={number}" for call, number in calls.items())
    environment = {**os.environ, "LD_PRELOAD": str(library), "LIMITED_DIR": str(folder), "LIMITED": wanted}
    return environment if after is None else {**environment, "LIMITED_AFTER": str(after)}


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    ("call", "number", "operation"),
    [
        ("rename", errno.ENOSYS, "cannot rename files"),
        ("rename", errno.EXDEV, "cannot rename files"),
        ("rename", errno.EACCES, "cannot rename files"),
        ("fsyncdir", errno.EIO, "cannot make new names durable"),
        ("fsyncfile", errno.EIO, "cannot make files durable"),
        ("append", errno.ENOTSUP, "cannot append to a file"),
        ("flock", errno.EIO, "cannot be written"),
    ],
)
def test_a_folder_that_cannot_do_what_outputs_need_is_refused_before_a_model_is_loaded(
    library: Path, prompts: Path, tmp_path: Path, call: str, number: int, operation: str
) -> None:
    out = tmp_path / "out"
    result = omni_gen("run", prompts, "-o", out, *NULL, env=limited(library, out, **{call: number}))
    assert result.returncode == 2
    (message,) = [line for line in result.stderr.splitlines() if "output folder" in line]
    assert f"output folder {str(out)!r} {operation}" in message
    assert f"({errno.errorcode[number]})" in message
    assert "--output-dir" in message
    assert "loading" not in result.stderr
    assert left(out) == []


@pytest.mark.parametrize(
    ("call", "number", "warning"),
    [
        ("flock", errno.EINVAL, "on a file system without locks"),
        ("flock", errno.ENOSYS, "on a file system without locks"),
        ("fsyncdir", errno.ENOSYS, "on a file system without fsync"),
        ("fsyncfile", errno.EINVAL, "on a file system without fsync"),
        ("fchmod", errno.EPERM, None),
    ],
)
def test_a_folder_without_what_is_only_safer_is_used_with_one_warning(
    library: Path, prompts: Path, tmp_path: Path, call: str, number: int, warning: str | None
) -> None:
    out, environment = tmp_path / "out", limited(library, tmp_path / "out", **{call: number})
    result = omni_gen("run", prompts, "-o", out, *NULL, env=environment)
    assert result.returncode == 0, result.stderr
    warnings = [line for line in result.stderr.splitlines() if "warning" in line]
    assert len(warnings) == (warning is not None), warnings
    assert (warning or "") in "".join(warnings)
    assert left(out) == ["manifest.jsonl", *(f"r{n}.png" for n in range(4))]
    again = omni_gen("run", prompts, "-o", out, *NULL, "--overwrite", env=environment)
    assert again.returncode == 0, again.stderr
    assert len(manifest_rows(out)) == 4


def test_without_locks_a_second_run_is_refused_by_the_process_of_the_first(
    library: Path, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, slow = tmp_path / "out", tmp_path / "slow.jsonl"
    slow.write_text(json.dumps({"id": "a", "prompt": "x", "num_frames": 1, "extra": {"forward_seconds": 60}}) + "\n")
    for name, value in limited(library, out, flock=errno.ENOSYS).items():
        monkeypatch.setenv(name, value)
    run = start("run", slow, "-o", out, "--runner", NULL[1], "--progress", "json")
    assert run.stderr is not None
    assert any("forward_started" in line for line in run.stderr)
    second = omni_gen("run", slow, "-o", out, *NULL)
    assert second.returncode == 2
    assert f"in use by another run (pid {run.pid} " in second.stderr
    run.kill()
    run.wait()
    (out / ".omni-gen.lock").write_text('{"pid": 1, "host": "another", "started": "2026-01-02T03:04:05+00:00"}')
    slow.write_text(json.dumps({"id": "b", "prompt": "x", "num_frames": 1}) + "\n")
    assert omni_gen("run", slow, "-o", out, *NULL).returncode == 0


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EXDEV, errno.EPERM])
def test_a_folder_that_stops_renaming_ends_the_run_and_fails_no_request(
    library: Path, prompts: Path, tmp_path: Path, number: int
) -> None:
    out = tmp_path / "out"
    environment = limited(library, out, after=out / "r0.png", rename=number)
    result = omni_gen("run", prompts, "-o", out, *NULL, env=environment)
    assert result.returncode == 3
    assert f"{str(out)!r} does not let files be renamed: " in result.stderr
    assert "write_failed" not in result.stderr
    assert [(row["id"], row["status"]) for row in manifest_rows(out)] == [("r0", "done")]
    assert left(out) == ["manifest.jsonl", "r0.png"]
    assert omni_gen("run", prompts, "-o", out, *NULL).returncode == 0
    assert [row["status"] for row in manifest_rows(out)] == ["done"] * 4


@pytest.mark.parametrize("number", [errno.EROFS, errno.EIO])
def test_a_folder_that_becomes_read_only_ends_the_run_and_fails_no_request(
    library: Path, prompts: Path, tmp_path: Path, number: int
) -> None:
    out = tmp_path / "out"
    environment = limited(library, out, after=out / "r0.png", rename=number)
    result = omni_gen("run", prompts, "-o", out, *NULL, "--disk-wait", "1", env=environment)
    assert result.returncode == 3
    assert [(row["id"], row["status"]) for row in manifest_rows(out)] == [("r0", "done")]


@pytest.mark.parametrize("umask", [0o002, 0o077])
def test_manifest_and_media_have_the_modes_of_the_umask(start: Start, tmp_path: Path, umask: int) -> None:
    """With umask 002 a colleague of the same group can go on."""
    out, slow = tmp_path / "out", tmp_path / "slow.jsonl"
    rows = [{"id": f"r{n}", "prompt": "x", "num_frames": 1, "extra": {"forward_seconds": n}} for n in range(2)]
    slow.write_text("".join(json.dumps(row) + "\n" for row in rows))
    before = os.umask(umask)
    try:
        run = start("run", slow, "-o", out, "--runner", NULL[1], "--progress", "json")
        assert run.stderr is not None
        assert any("request_finished" in line for line in run.stderr)
        names = [".omni-gen.lock", "manifest.jsonl", "r0.png"]
        modes = {name: stat.S_IMODE((out / name).stat().st_mode) for name in names}
        run.communicate(timeout=60)
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(names, 0o666 & ~umask)
    assert run.returncode == 0
    assert stat.S_IMODE((out / "manifest.jsonl").stat().st_mode) == 0o666 & ~umask


READ_ONLY = """
out=$1; shift
mount --bind "$out" "$out" || exit 97
for place in /dev/shm /run /var/tmp /tmp; do
    if mountpoint -q $place; then mount -o remount,ro,bind $place || exit 97; fi
done
mount -o remount,ro,bind / || exit 97
cd / && touch /tmp/probe 2> /dev/null && exit 97
exec "$@"
"""
"""Makes everything but the folder `out` read-only in a mount namespace of its own."""


@pytest.mark.parametrize("piped", [False, True])
@pytest.mark.parametrize("flags", [[], ["--encoder", "ffmpeg"]])
def test_a_run_needs_no_folder_of_temporary_files(tmp_path: Path, piped: bool, flags: list[str]) -> None:
    out, prompts = tmp_path / "out", tmp_path / "p.jsonl"
    out.mkdir()
    prompts.write_text(json.dumps({"id": "a", "prompt": "x", "num_frames": 5}) + "\n")
    inside = ["bash", "-c", READ_ONLY, "_", str(out)]
    command = [*COMMAND, "run", "-" if piped else str(prompts), "-o", str(out), *NULL, *flags]
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("mounting takes root")
    with prompts.open("rb") as stdin:
        run = subprocess.run(
            ["unshare", "-m", "--propagation", "private", *inside, *command],
            stdin=stdin if piped else subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    if run.returncode == 97:
        pytest.skip("the root cannot be made read-only here")
    assert run.returncode == 0, run.stderr
    assert left(out) == ["a.mp4", "manifest.jsonl"]
