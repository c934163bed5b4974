"""The journal: what counts as done, and one row per request whatever happened to the process that wrote it."""

import hashlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_cli.errors import EngineError, OutputFolderError, StorageFault, StorageLost
from omni_cli.journal import Journal, read_rows
from omni_cli.journal.compact import COMPACT_NAME
from omni_cli.request import ErrorInfo, GenerationRequest, ModelInfo, OutputFile, PlannedRequest, Result
from tests.disks import fill, small_disk

MODEL = ModelInfo(id="demo", revision="r1", pipeline="WanPipeline", dtype="float32")


def planned(name: str = "a", fingerprint: str = "f1", files: tuple[str, ...] = ("a.png",)) -> PlannedRequest:
    return PlannedRequest(
        request=GenerationRequest(id=name, prompt="p"), index=0, seeds=(1,), files=files, fingerprint=fingerprint
    )


def row(
    name: str = "a",
    *,
    files: tuple[OutputFile, ...] = (),
    fingerprint: str = "f1",
    status: str = "done",
    prompt: str = "p",
):
    error = ErrorInfo(kind="forward_failed", message="no") if status == "failed" else None
    return Result(
        id=name,
        index=0,
        status=status,
        files=files,
        seeds=(1,),
        request=GenerationRequest(id=name, prompt=prompt),
        fingerprint=fingerprint,
        model=MODEL,
        error=error,
    )


def written(root: Path, path: str = "a.png", data: bytes = b"pixels") -> OutputFile:
    (root / path).write_bytes(data)
    return OutputFile(
        path=path, sha256=hashlib.sha256(data).hexdigest(), bytes=len(data), width=1, height=1, frames=1, fps=None
    )


def rows_on_disk(root: Path) -> list[dict]:
    return [msgspec.json.decode(line) for line in (root / "manifest.jsonl").read_bytes().splitlines()]


def test_a_done_row_with_its_files_in_place_is_done_in_the_same_run_and_the_next(tmp_path):
    with Journal.open(tmp_path / "new" / "out") as journal:
        root = tmp_path / "new" / "out"
        assert not journal.is_done(planned())
        journal.append(row(files=(written(root),)))
        assert journal.is_done(planned())
    with Journal.open(root) as journal:
        assert journal.is_done(planned())
        assert not journal.is_done(planned("b"))
    assert sorted(path.name for path in root.iterdir()) == ["a.png", "manifest.jsonl"]


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_only_the_status_done_counts(tmp_path, status):
    with Journal.open(tmp_path) as journal:
        journal.append(row(files=(written(tmp_path),), status=status))
        assert not journal.is_done(planned())


@pytest.mark.parametrize("status", ["done", "failed"])
def test_whether_a_request_has_a_done_row_is_told_without_a_plan(tmp_path, status):
    with Journal.open(tmp_path) as journal:
        journal.append(row("a", status=status))
        assert journal.has_done("a") == (status == "done")
        assert not journal.has_done("b")


def test_another_fingerprint_or_other_file_names_are_not_done(tmp_path):
    with Journal.open(tmp_path) as journal:
        journal.append(row(files=(written(tmp_path),)))
        assert not journal.is_done(planned(fingerprint="f2"))
        assert not journal.is_done(planned(files=("b.png",)))
        assert not journal.is_done(planned(files=("a.png", "b.png")))


def _change_a_byte(path: Path) -> None:
    path.write_bytes(b"pixelz")


def _make_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _make_a_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    "damage",
    [Path.unlink, lambda path: path.write_bytes(b"pix"), _change_a_byte, _make_a_folder, _make_a_fifo],
    ids=["gone", "cut", "same size, other bytes", "folder", "fifo"],
)
def test_a_file_that_is_not_what_was_written_counts_as_not_done(tmp_path, damage):
    with Journal.open(tmp_path) as journal:
        files = (written(tmp_path, "a.png"), written(tmp_path, "b.png"))
        journal.append(row(files=files))
        assert journal.is_done(planned(files=("a.png", "b.png")))
        damage(tmp_path / "b.png")
        assert not journal.is_done(planned(files=("a.png", "b.png")))


def test_a_rerun_replaces_the_failed_row_and_keeps_the_others(tmp_path):
    with Journal.open(tmp_path) as journal:
        journal.append(row("a", status="failed"))
        journal.append(row("b"))
    with Journal.open(tmp_path) as journal:
        journal.append(row("a"))
        assert len(rows_on_disk(tmp_path)) == 3
    assert [(r["id"], r["status"]) for r in rows_on_disk(tmp_path)] == [("b", "done"), ("a", "done")]


def test_a_torn_last_row_is_dropped_and_the_next_row_is_clean(tmp_path, caplog):
    whole = msgspec.json.encode(row("a")) + b"\n"
    torn = msgspec.json.encode(row("b"))[:-20]
    (tmp_path / "manifest.jsonl").write_bytes(whole + torn)
    with Journal.open(tmp_path) as journal:
        assert "cut short" in caplog.text
        assert not journal.is_done(planned("b"))
        journal.append(row("c"))
    assert [r["id"] for r in rows_on_disk(tmp_path)] == ["a", "c"]


def test_what_a_run_killed_while_compacting_left_is_gone_with_the_next_start(tmp_path):
    with Journal.open(tmp_path) as journal:
        journal.append(row("a"))
    (tmp_path / COMPACT_NAME).write_bytes(b'{"schema_version": 1, "id": "half')
    with Journal.open(tmp_path):
        assert sorted(path.name for path in tmp_path.iterdir()) == [".omni-gen.lock", "manifest.jsonl"]


def test_a_last_row_that_lacks_only_its_newline_is_kept(tmp_path):
    (tmp_path / "manifest.jsonl").write_bytes(msgspec.json.encode(row("a")))
    with Journal.open(tmp_path) as journal:
        journal.append(row("b"))
    assert [r["id"] for r in rows_on_disk(tmp_path)] == ["a", "b"]


def test_zero_bytes_left_by_a_crash_of_the_machine_are_dropped(tmp_path):
    (tmp_path / "manifest.jsonl").write_bytes(msgspec.json.encode(row("a")) + b"\n" + bytes(5000))
    with Journal.open(tmp_path) as journal:
        journal.append(row("b"))
    assert [r["id"] for r in rows_on_disk(tmp_path)] == ["a", "b"]


def test_unreadable_lines_are_kept_warned_of_once_and_not_done(tmp_path, caplog):
    lines = [b"not json", b'{"id": 7}', b"\xff\xfe", msgspec.json.encode(row("a")), b"no newline"]
    (tmp_path / "manifest.jsonl").write_bytes(b"\n".join(lines))
    with Journal.open(tmp_path) as journal:
        journal.append(row("a", prompt="again"))
    kept = (tmp_path / "manifest.jsonl").read_bytes().splitlines()
    assert kept[:3] == lines[:3]
    assert kept[3] == b"no newline"
    assert msgspec.json.decode(kept[4])["request"]["prompt"] == "again"
    assert len(kept) == 5
    assert [record.message for record in caplog.records if "not rows of this version" in record.message] == [
        f"4 lines of {tmp_path / 'manifest.jsonl'} are not rows of this version; they are kept, and count as not done"
    ]


def test_a_row_of_another_version_is_replaced_by_the_row_of_its_id(tmp_path):
    (tmp_path / "manifest.jsonl").write_bytes(b'{"schema_version":9,"id":"a","outcome":"fine"}\n')
    with Journal.open(tmp_path) as journal:
        assert not journal.is_done(planned("a"))
        journal.append(row("a"))
    assert [r["schema_version"] for r in rows_on_disk(tmp_path)] == [1]


def test_rows_with_newlines_and_any_script_stay_one_line(tmp_path):
    prompt = "line one\nline two\r\u2028 日本語 \U0001f600"
    with Journal.open(tmp_path) as journal:
        journal.append(row("né\n日", prompt=prompt))
    (only,) = read_rows(tmp_path / "manifest.jsonl")
    assert (only.id, only.request.prompt) == ("né\n日", prompt)


def test_appends_from_many_threads_are_whole_rows(tmp_path):
    with Journal.open(tmp_path) as journal:
        threads = [
            threading.Thread(target=lambda t=t: [journal.append(row(f"{t}-{i}", prompt="x" * 9000)) for i in range(8)])
            for t in range(6)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(r["id"] for r in rows_on_disk(tmp_path)) == sorted(f"{t}-{i}" for t in range(6) for i in range(8))


def test_a_row_that_does_not_fit_on_the_disk_leaves_the_manifest_as_it_was(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Journal.open(tmp_path) as journal:
        journal.append(row("a"))
        before = (tmp_path / "manifest.jsonl").read_bytes()
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 100, hard))
        try:
            with pytest.raises(EngineError, match="goes on from here"):
                journal.append(row("b"))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert (tmp_path / "manifest.jsonl").read_bytes() == before
        journal.append(row("c"))
    assert [r["id"] for r in rows_on_disk(tmp_path)] == ["a", "c"]


def test_read_rows_gives_the_last_row_of_each_id_while_a_run_goes_on(tmp_path):
    with Journal.open(tmp_path) as journal:
        journal.append(row("a", status="failed"))
        journal.append(row("b"))
        journal.append(row("a"))
        with (tmp_path / "manifest.jsonl").open("ab") as other:
            other.write(b'{"schema_version":1,"id":"c"')
        assert [(r.id, r.status) for r in read_rows(tmp_path / "manifest.jsonl")] == [("b", "done"), ("a", "done")]


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("elsewhere")])
def test_a_manifest_that_is_not_a_plain_file_is_refused(tmp_path, make):
    make(tmp_path / "manifest.jsonl")
    with pytest.raises(OutputFolderError, match=r"manifest\.jsonl"), Journal.open(tmp_path):
        pass


KILLED = """
import sys, time
from omni_cli.journal import Journal
import msgspec
from omni_cli.request import Result
results = [msgspec.json.decode(line, type=Result) for line in sys.stdin.buffer]
with Journal.open(sys.argv[1]) as journal:
    for result in results:
        journal.append(result)
    print("written", flush=True)
    time.sleep(600)
"""


def test_after_kill_9_the_folder_is_free_and_the_next_run_finds_one_row_per_request(tmp_path):
    rows = [row("a", status="failed"), row("b"), row("a")]
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        child.stdin.write(b"".join(msgspec.json.encode(r) + b"\n" for r in rows))
        child.stdin.close()
        assert child.stdout.readline() == b"written\n"
        with pytest.raises(OutputFolderError, match=f"pid {child.pid} "), Journal.open(tmp_path):
            pass
        child.send_signal(signal.SIGKILL)
    assert [r["id"] for r in rows_on_disk(tmp_path)] == ["a", "b", "a"]
    with Journal.open(tmp_path):
        assert [(r["id"], r["status"]) for r in rows_on_disk(tmp_path)] == [("b", "done"), ("a", "done")]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.sampled_from("abc"), st.sampled_from(["done", "failed", "cancelled"])),
        st.tuples(st.just("close")),
        st.tuples(st.just("kill"), st.integers(0, 400)),
    ),
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_any_history_of_appends_ends_and_torn_tails_leaves_the_last_status_of_each_id(steps):
    with tempfile.TemporaryDirectory() as name:
        root, expected = Path(name), {}
        sessions: list[list[tuple[str, str]]] = [[]]
        ends: list[int | None] = []
        for step in steps:
            if step[0] == "append":
                sessions[-1].append(step[1:])
            else:
                ends.append(step[1] if step[0] == "kill" else None)
                sessions.append([])
        for session, torn in zip(sessions, [*ends, None], strict=True):
            with Journal.open(root) as journal:
                for request_id, status in session:
                    journal.append(row(request_id, status=status))
                    expected[request_id] = status
                as_killed = (root / "manifest.jsonl").read_bytes()
            if torn is not None:
                (root / "manifest.jsonl").write_bytes(as_killed + msgspec.json.encode(row("z"))[:torn])
                if torn >= len(msgspec.json.encode(row("z"))):
                    expected["z"] = "done"
        found = rows_on_disk(root)
        assert {r["id"]: r["status"] for r in found} == expected
        assert len(found) == len(expected)


def test_a_full_disk_is_a_fault_that_may_pass_and_the_row_is_whole_when_there_is_room(tmp_path):
    with small_disk(tmp_path / "disk", "64k") as folder, Journal.open(folder) as journal:
        journal.append(row("a"))
        ballast = fill(folder)
        long = "p" * 8000  # more than the manifest's last page has room for: a part of it is written
        for _ in range(2):
            with pytest.raises(StorageFault, match=r"No space left on device \(ENOSPC\); make room"):
                journal.append(row("b", prompt=long))
        assert [r["id"] for r in rows_on_disk(folder)] == ["a"]
        ballast.unlink()
        journal.append(row("b", prompt=long))
        assert [r["id"] for r in rows_on_disk(folder)] == ["a", "b"]


def test_a_torn_row_that_could_not_be_cut_off_is_cut_before_the_next_one(tmp_path, monkeypatch):
    with small_disk(tmp_path / "disk", "64k") as folder, Journal.open(folder) as journal:
        journal.append(row("a"))
        ballast = fill(folder)

        def broken(descriptor, size):
            raise OSError(5, "Input/output error")

        with monkeypatch.context() as patch:
            patch.setattr(os, "ftruncate", broken)
            with pytest.raises(StorageFault):
                journal.append(row("b", prompt="p" * 8000))
            assert not (folder / "manifest.jsonl").read_bytes().endswith(b"\n")
            with pytest.raises(StorageFault, match="Input/output error"):
                journal.append(row("c"))
        ballast.unlink()
        journal.append(row("c"))
        assert [r["id"] for r in rows_on_disk(folder)] == ["a", "c"]


@pytest.mark.parametrize("replaced", [False, True])
def test_rows_are_not_added_to_a_manifest_that_nobody_can_see(tmp_path, replaced):
    with Journal.open(tmp_path) as journal:
        journal.append(row("a"))
        (tmp_path / "manifest.jsonl").unlink()
        if replaced:
            (tmp_path / "manifest.jsonl").touch()
        with pytest.raises(StorageLost, match="deleted or replaced while this run was writing it"):
            journal.append(row("b"))


def test_a_folder_that_is_gone_when_the_run_ends_is_no_second_error(tmp_path):
    with Journal.open(tmp_path / "out") as journal:
        journal.append(row("a"))
        journal.append(row("a"))
        shutil.rmtree(tmp_path / "out")
