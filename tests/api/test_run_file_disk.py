"""Runs on disks that are too small, become full, or go away: stored files stay, and a second run completes the rest."""

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omni_cli.api import Session
from omni_cli.api.run_file import run_file
from omni_cli.config import EngineConfig, OutputConfig, RunConfig
from omni_cli.errors import OutputFolderError, StorageUnavailable
from omni_cli.events import AnyEvent, EncodeDone, ForwardDone, Note, OutputArrived, RequestFinished, RunFinished
from omni_cli.prompts.prompt_source import PromptSource
from omni_cli.request import GenerationRequest
from omni_cli.trace import Timeline
from tests.disks import fill, small_disk

COUNT = 6
PATIENCE_S = 60.0
RAW = 64 * 64 * 3 + 128
NULL = EngineConfig(executor="inline", runner="omni_cli.worker.null:NullRunner")


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "manifest.jsonl").read_text(encoding="utf-8").splitlines()]


def all_done(folder: Path) -> bool:
    """Check that every request has one row and one complete file; return whether all are done."""
    rows = rows_of(folder)
    assert sorted(row["id"] for row in rows) == [f"r{n}" for n in range(COUNT)]
    assert {path.name for path in folder.iterdir()} == {"manifest.jsonl", *(f"r{n}.npy" for n in range(COUNT))}
    assert {path.stat().st_size for path in folder.glob("*.npy")} == {RAW}
    return {row["status"] for row in rows} == {"done"}


class Run:
    """`COUNT` arrays of 12 KiB each, rendered in this process."""

    def __init__(self, prompts: Path) -> None:
        self.prompts = prompts
        self.events: list[AnyEvent] = []
        self.on_event: Callable[[AnyEvent], None] = lambda event: None

    def __call__(self, folder: Path, limit: int | None = None, engine: EngineConfig = NULL, **output: Any) -> int:
        """Run the prompt file into `folder` and return the exit code."""
        config = RunConfig(engine=engine, output=OutputConfig(output_dir=str(folder), writers=1, **output), limit=limit)
        self.events.clear()
        with (
            PromptSource(str(self.prompts), GenerationRequest()) as source,
            Session(config, self.observe, Timeline(), base=source.base) as session,
        ):
            return run_file(session, source)

    def observe(self, event: AnyEvent) -> None:
        self.events.append(event)
        self.on_event(event)

    @property
    def ending(self) -> RunFinished:
        assert isinstance(self.events[-1], RunFinished)
        return self.events[-1]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    prompts = tmp_path / "p.jsonl"
    rows = [{"id": f"r{n}", "prompt": "x", "num_frames": 1, "format": "npy"} for n in range(COUNT)]
    prompts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Run(prompts)


def test_a_run_that_cannot_fit_on_the_disk_is_refused_before_it_starts(run: Run, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "48k") as disk:
        least = f"{COUNT} files take at least {COUNT * (RAW + 1001) / 1024:.1f} KiB, "
        for engine in (NULL, EngineConfig()):
            with pytest.raises(OutputFolderError, match=least):
                run(disk / "out", engine=engine)
            assert (run.ending.exit_code, run.ending.not_run) == (2, COUNT)
        assert rows_of(disk / "out") == []
        assert run(disk / "out", limit=1) == 0
        assert run(disk / "out", limit=2, disk_check=False) == 0


def test_a_resumed_run_needs_space_only_for_missing_files(run: Run, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "112k") as disk:
        assert run(disk / "out", limit=4) == 0
        assert run(disk / "out") == 0, "six would not have fitted beside the four"
        assert all_done(disk / "out")


def test_a_run_waits_for_a_full_disk_and_completes_once_there_is_space(run: Run, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "256k") as disk:
        seen: list[str] = []

        def on_event(event: AnyEvent) -> None:
            if isinstance(event, RequestFinished) and event.result.id == "r1":
                fill(disk)
            if isinstance(event, Note):
                seen.append(event.text)
                if "no new forwards" in event.text:
                    (disk / "ballast").unlink()

        run.on_event = on_event
        assert run(disk / "out") == 0
        _, refused, resumed = seen  # the first is the choice of workers
        assert "No space left on device" in refused
        assert resumed == "the disk takes files again: resuming"
        assert all_done(disk / "out")


def test_a_disk_that_stays_full_ends_the_run_and_a_second_run_completes_it(run: Run, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "64k") as disk:
        with pytest.raises(
            StorageUnavailable,
            match=r"nothing could be stored for 0 s: .*No space left on device.*run the same command",
        ):
            run(disk / "out", disk_check=False, disk_wait=0.0)
        done = {row["id"] for row in rows_of(disk / "out")}
        assert 1 <= len(done) < COUNT
        assert {path.stem for path in (disk / "out").glob("*.npy")} == done
        assert not [path for path in (disk / "out").iterdir() if path.name.startswith(".")]
        assert (run.ending.exit_code, run.ending.done, run.ending.failed) == (3, len(done), 0)
        subprocess.run(["mount", "-o", "remount,size=1m", str(disk)], check=True)
        assert run(disk / "out") == 0
        assert run.ending.skipped == len(done)
        assert all_done(disk / "out")


@pytest.mark.parametrize("how", ["deleted", "unmounted"])
def test_a_removed_output_folder_ends_the_run_and_is_not_created_again(run: Run, tmp_path: Path, how: str) -> None:
    with small_disk(tmp_path / "disk", "1m") as disk:
        out = disk if how == "unmounted" else disk / "out"

        def on_event(event: AnyEvent) -> None:
            if isinstance(event, RequestFinished) and event.result.id == "r1":
                if how == "unmounted":
                    subprocess.run(["umount", "-l", str(disk)], check=True)
                else:
                    shutil.rmtree(out)

        run.on_event = on_event
        with pytest.raises(StorageUnavailable, match="no longer exists: it was deleted, moved or unmounted"):
            run(out)
        assert run.ending.exit_code == 3
        assert [*disk.iterdir()] == [], "nothing was written where the folder had been"


def test_a_slow_disk_delays_forwards_within_the_memory_limit(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    side, slots = 720, 2
    rows = [{"id": f"r{n}", "prompt": "x", "num_frames": 1, "height": side, "width": side} for n in range(10)]
    run.prompts.write_text("".join(json.dumps(row | {"format": "npy"}) + "\n" for row in rows))
    nbytes = -(-side * side * 3 // 4096) * 4096
    syncing, most, inside = threading.Semaphore(0), 0, 0
    fsync, main = os.fsync, threading.get_ident()

    def slow(descriptor: int) -> None:
        """Block until the next forward is over and its output finds no free slot."""
        if threading.get_ident() != main:
            syncing.acquire(timeout=PATIENCE_S)
        fsync(descriptor)

    def on_event(event: AnyEvent) -> None:
        nonlocal inside, most
        if isinstance(event, OutputArrived):
            inside += event.bytes
            most = max(most, inside)
        if isinstance(event, EncodeDone):
            inside -= side * side * 3
        if isinstance(event, ForwardDone) and event.ids == ("r3",):
            syncing.release(1000)

    monkeypatch.setattr(os, "fsync", slow)
    run.on_event = on_event
    engine = EngineConfig(runner="omni_cli.worker.null:NullRunner", max_inflight_bytes=slots * nbytes)
    assert run(tmp_path / "out", engine=engine) == 0
    assert run.ending.done == len(rows)
    # One more than there are slots: a slot is released a moment before its EncodeDone is emitted.
    assert nbytes <= most <= (slots + 1) * nbytes
