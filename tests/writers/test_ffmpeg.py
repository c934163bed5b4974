"""The ffmpeg program as an encoder: which one runs, and how its failures are reported."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from omni_cli.config import OutputConfig
from omni_cli.errors import WriteError
from omni_cli.writers import ffmpeg
from omni_cli.writers.codecs import ffmpeg_program
from omni_cli.writers.output_target import OutputTarget
from omni_cli.writers.samples import Frames
from omni_cli.writers.write import write_output

LISTING = "case \"$*\" in *-encoders*) echo ' V....D libx264 x'; exit 0;; esac\n"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Install a shell script as ffmpeg; it lists libx264 as its encoder."""

    def make(script: str) -> Path:
        path = tmp_path / "bin" / "ffmpeg"
        path.parent.mkdir()
        path.write_text(f"#!/bin/sh\n{LISTING}{script}")
        path.chmod(0o755)
        monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", str(path))
        return path

    return make


def write(frames: Frames, root: Path, timeout: float = 60.0) -> None:
    root.mkdir(exist_ok=True)
    options = OutputConfig(encoder="ffmpeg", encoder_timeout=timeout)
    write_output(frames, OutputTarget(root, "x.mp4", "mp4", 8, options))


def running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_program_of_the_environment_is_the_one_that_runs(
    clip: Callable[..., Frames], tmp_path: Path, program: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("IMAGEIO_FFMPEG_EXE", raising=False)
    real = ffmpeg_program()
    program(f'echo "$*" > "{tmp_path}/arguments"\nexec "{real}" "$@"\n')
    write(clip(), tmp_path / "out")
    arguments = (tmp_path / "arguments").read_text()
    assert "-threads:v 1" in arguments
    assert (tmp_path / "out" / "x.mp4").stat().st_size > 500


@pytest.mark.parametrize("count", [1, 60])
def test_program_that_fails_is_quoted_with_its_last_lines(
    clip: Callable[..., Frames], tmp_path: Path, program: Callable[[str], Path], count: int
) -> None:
    path = program('i=0; while [ $i -lt 9 ]; do echo "line $i" >&2; i=$((i+1)); done; exit 3\n')
    with pytest.raises(WriteError) as caught:
        write(clip(128, 128, count), tmp_path / "out")
    text = str(caught.value)
    assert text.startswith("'x.mp4' was not written: ")
    assert f"{path} ended with exit code 3: line 3\nline 4\n" in text
    assert text.endswith("line 8")
    assert list((tmp_path / "out").iterdir()) == []


def test_program_that_is_killed_is_named_with_its_signal(
    clip: Callable[..., Frames], tmp_path: Path, program: Callable[[str], Path]
) -> None:
    program("kill -9 $$\n")
    with pytest.raises(WriteError, match="was ended by SIGKILL: it printed nothing"):
        write(clip(128, 128, 60), tmp_path / "out")


def test_program_that_closes_its_input_and_does_not_exit_is_killed(
    clip: Callable[..., Frames], tmp_path: Path, program: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ffmpeg, "QUIT_S", 0.05)
    program(f'exec 0<&-\nsleep 600 & echo "$$ $!" > "{tmp_path}/pids"\nwait\n')
    with pytest.raises(WriteError, match="closed its input and did not exit"):
        write(clip(128, 128, 60), tmp_path / "out")
    leader, child = map(int, (tmp_path / "pids").read_text().split())
    assert not running(leader)
    assert exited(child)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("", "took no frame for 1 s and was killed: about to hang"),
        ("cat > /dev/null; ", "had every frame, was not done 1 s later and was killed: about to hang"),
    ],
    ids=["reading", "finishing"],
)
def test_program_that_stalls_is_killed_and_does_not_block_the_writer(
    clip: Callable[..., Frames], tmp_path: Path, program: Callable[[str], Path], script: str, message: str
) -> None:
    program(f'echo "about to hang" >&2; echo $$ > "{tmp_path}/pid"; {script}sleep 600\n')
    with pytest.raises(WriteError) as caught:
        write(clip(128, 128, 60), tmp_path / "out", timeout=1.0)
    assert message in str(caught.value)
    assert not running(int((tmp_path / "pid").read_text()))
    assert list((tmp_path / "out").iterdir()) == []


def test_slow_program_that_makes_progress_is_not_killed(
    clip: Callable[..., Frames], tmp_path: Path, program: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("IMAGEIO_FFMPEG_EXE", raising=False)
    real = ffmpeg_program()
    drip = "import sys, time\nwhile d := sys.stdin.buffer.read1(150000): time.sleep(0.1); sys.stdout.buffer.write(d)"
    program(f'"{sys.executable}" -S -c "{drip}" | "{real}" "$@"\n')
    write(clip(128, 128, 60), tmp_path / "out", timeout=1.5)  # 3 MB take longer in all
    assert (tmp_path / "out" / "x.mp4").stat().st_size > 500


def test_error_while_reading_frames_ends_the_program(
    clip: Callable[..., Frames], tmp_path: Path, program: Callable[[str], Path]
) -> None:
    class BrokenFrames(Frames):
        def __iter__(self) -> Iterator[object]:
            yield self.array[0]
            raise ValueError("frame 1 cannot be read")

    program(f'echo $$ > "{tmp_path}/pid"\ncat > /dev/null; sleep 600\n')
    whole = clip(256, 256)
    with pytest.raises(WriteError, match="frame 1 cannot be read"):
        write(BrokenFrames(whole.array, whole.kind, whole.color), tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
    assert not running(int((tmp_path / "pid").read_text()))


def test_file_name_is_never_read_as_a_protocol_or_an_option(clip: Callable[..., Frames], tmp_path: Path) -> None:
    options = OutputConfig(encoder="ffmpeg")
    for name in ("-y.mp4", "http:x.mp4", "concat:a|b.mp4", "%03d.mp4", "a b'\n.mp4"):
        write_output(clip(), OutputTarget(tmp_path, name, "mp4", 8, options))
        assert (tmp_path / name).stat().st_size > 500


def exited(pid: int) -> bool:
    """Wait until `pid`, which was sent SIGKILL, has exited; False if it has not within 5 s."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
        if not state or state.startswith("Z"):
            return True
        time.sleep(0.01)
    return False
