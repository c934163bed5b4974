"""The journal: what counts as done, and one row per request however the writing process ended."""

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

from omni_cli.errors import EngineError, OutputFolderError, StorageError, StorageUnavailable
from omni_cli.journal import Journal, RequestStatus, read_rows
from omni_cli.request import GenerationRequest, OutputFile, PlannedRequest
from tests.disks import fill, small_disk
from tests.factories import planned, result


def row(
    name: str = "a",
    *,
    files: tuple[OutputFile, ...] = (),
    fingerprint: str = "f",
    status: str = "done",
    prompt: str = "p",
):
    request = GenerationRequest(id=name, prompt=prompt)
    return result(
        name, status, files=files, seeds=tuple(range(5, 5 + len(files))), request=request, fingerprint=fingerprint
    )


def is_done(journal: Journal, request: PlannedRequest) -> bool:
    return journal.compare(request).status is RequestStatus.DONE


def write_file(root: Path, path: str = "a.png", data: bytes = b"pixels") -> OutputFile:
    (root / path).write_bytes(data)
    return OutputFile(
        path=path, sha256=hashlib.sha256(data).hexdigest(), bytes=len(data), width=1, height=1, frames=1, fps=None
    )


def rows_on_disk(root: Path) -> list[dict]:
    return [msgspec.json.decode(line) for line in (root / "manifest.jsonl").read_bytes().splitlines()]


def test_done_row_with_its_files_in_place_is_done_in_this_run_and_the_next(tmp_path):
    with Journal.open(tmp_path / "new" / "out") as journal:
        root = tmp_path / "new" / "out"
        assert not is_done(journal, planned("a"))
        journal.append(row(files=(write_file(root),)))
        assert is_done(journal, planned("a"))
    with Journal.open(root) as journal:
        assert is_done(journal, planned("a"))
        assert not is_done(journal, planned("b"))
    assert sorted(path.name for path in root.iterdir()) == ["a.png", "manifest.jsonl"]


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_only_the_status_done_counts(tmp_path, status):
    with Journal.open(tmp_path) as journal:
        journal.append(row(files=(write_file(tmp_path),), status=status))
        assert not is_done(journal, planned("a"))


@pytest.mark.parametrize("status", ["done", "failed"])
def test_has_done_looks_at_the_status_only(tmp_path, status):
    with Journal.open(tmp_path) as journal:
        journal.append(row("a", status=status))
        assert journal.has_done("a") == (status == "done")
        assert not journal.has_done("b")


def test_other_fingerprint_seed_or_number_of_outputs_is_not_done_and_another_name_is(tmp_path):
    with Journal.open(tmp_path) as journal:
        journal.append(row(files=(write_file(tmp_path),)))
        assert not is_done(journal, planned("a", fingerprint="f2"))
        assert not is_done(journal, planned("a", seeds=(6,)))
        assert not is_done(journal, planned("a", "a.png", "b.png"))
        assert is_done(journal, planned("a", "b.png"))


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_done_row_with_a_file_in_place_is_replaced_by_a_done_row_only(tmp_path, status):
    with Journal.open(tmp_path) as journal:
        journal.append(row(files=(write_file(tmp_path, "a.png"), write_file(tmp_path, "b.png"))))
        (tmp_path / "b.png").unlink()
        journal.append(row(status=status))
        assert [r["status"] for r in rows_on_disk(tmp_path)] == ["done"]
        (tmp_path / "a.png").unlink()
        journal.append(row(status=status))
    assert [r["status"] for r in rows_on_disk(tmp_path)] == [status]


def test_superseded_row_is_gone_once_the_other_is_written(tmp_path):
    with Journal.open(tmp_path) as journal:
        journal.append(row("00000"))
        journal.append(row("b"))
        journal.supersede("00000", "new")
        assert journal.last_row("00000") is not None
        journal.append(row("new"))
        assert journal.last_row("00000") is None
    assert [r["id"] for r in rows_on_disk(tmp_path)] == ["b", "new"]


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
def test_changed_or_missing_file_counts_as_not_done(tmp_path, damage):
    with Journal.open(tmp_path) as journal:
        files = (write_file(tmp_path, "a.png"), write_file(tmp_path, "b.png"))
        journal.append(row(files=files))
        assert is_done(journal, planned("a", "a.png", "b.png"))
        damage(tmp_path / "b.png")
        assert not is_done(journal, planned("a", "a.png", "b.png"))


def test_rerun_replaces_the_failed_row_and_keeps_the_others(tmp_path):
    with Journal.open(tmp_path) as journal:
        journal.append(row("a", status="failed"))
        journal.append(row("b"))
    with Journal.open(tmp_path) as journal:
        journal.append(row("a"))
        assert len(rows_on_disk(tmp_path)) == 3
    assert [(r["id"], r["status"]) for r in rows_on_disk(tmp_path)] == [("b", "done"), ("a", "done")]


def test_torn_last_row_is_dropped_and_the_next_row_is_whole(tmp_path, caplog):
    whole = msgspec.json.encode(row("a")) + b"\n"
    torn = msgspec.json.encode(row("b"))[:-20]
    (tmp_path / "manifest.jsonl").write_bytes(whole + torn)
    with Journal.open(tmp_path) as journal:
        assert "cut short" in caplog.text
        assert not is_done(journal, planned("b"))
        journal.append(row("c"))
    assert [r["id"] for r in rows_on_disk(tmp_path)] == ["a", "c"]


def test_failed_compaction_keeps_every_row_and_leaves_no_other_file(tmp_path, monkeypatch, caplog):
    with Journal.open(tmp_path) as journal:
        journal.append(row("a", status="failed"))
        journal.append(row("a"))
        before = (tmp_path / "manifest.jsonl").read_bytes()

        def fail(self, target):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Path, "replace", fail)
    assert (tmp_path / "manifest.jsonl").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.jsonl"]
    assert "keeps 1 replaced rows for now: No space left on device" in caplog.text


def test_last_row_without_its_newline_is_kept(tmp_path):
    (tmp_path / "manifest.jsonl").write_bytes(msgspec.json.encode(row("a")))
    with Journal.open(tmp_path) as journal:
        journal.append(row("b"))
    assert [r["id"] for r in rows_on_disk(tmp_path)] == ["a", "b"]


def test_zero_bytes_after_a_crash_of_the_machine_are_dropped(tmp_path):
    (tmp_path / "manifest.jsonl").write_bytes(msgspec.json.encode(row("a")) + b"\n" + bytes(5000))
    with Journal.open(tmp_path) as journal:
        journal.append(row("b"))
    assert [r["id"] for r in rows_on_disk(tmp_path)] == ["a", "b"]


def test_unreadable_lines_are_kept_with_one_warning_and_count_as_not_done(tmp_path, caplog):
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


def test_row_of_another_version_is_replaced_by_a_row_of_its_id(tmp_path):
    (tmp_path / "manifest.jsonl").write_bytes(b'{"schema_version":9,"id":"a","outcome":"fine"}\n')
    with Journal.open(tmp_path) as journal:
        assert not is_done(journal, planned("a"))
        journal.append(row("a"))
    assert [r["schema_version"] for r in rows_on_disk(tmp_path)] == [2]


def test_row_with_newlines_and_any_script_is_one_line(tmp_path):
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


def test_row_that_does_not_fit_on_the_disk_leaves_the_manifest_unchanged(tmp_path):
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


def test_read_rows_yields_the_last_row_of_each_id_while_a_run_appends(tmp_path):
    with Journal.open(tmp_path) as journal:
        journal.append(row("a", status="failed"))
        journal.append(row("b"))
        journal.append(row("a"))
        with (tmp_path / "manifest.jsonl").open("ab") as other:
            other.write(b'{"schema_version":1,"id":"c"')
        assert [(r.id, r.status) for r in read_rows(tmp_path / "manifest.jsonl")] == [("b", "done"), ("a", "done")]


def test_read_rows_leaves_out_rows_that_are_added_while_it_reads(tmp_path: Path) -> None:
    with Journal.open(tmp_path) as journal:
        for name in ("a", "b"):
            journal.append(row(name, status="failed"))
        rows = read_rows(tmp_path / "manifest.jsonl")
        first = next(rows)
        for name in ("a", "b", "c"):
            journal.append(row(name))
        assert [(r.id, r.status) for r in (first, *rows)] == [("a", "failed"), ("b", "failed")]


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("elsewhere")])
def test_manifest_that_is_not_a_plain_file_is_refused(tmp_path, make):
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


def test_after_kill_9_the_folder_is_unlocked_and_the_next_run_finds_one_row_per_request(tmp_path):
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
        rows = rows_on_disk(root)
        assert {r["id"]: r["status"] for r in rows} == expected
        assert len(rows) == len(expected)


def test_full_disk_is_a_storage_error_and_the_row_is_whole_once_there_is_space(tmp_path):
    with small_disk(tmp_path / "disk", "64k") as folder, Journal.open(folder) as journal:
        journal.append(row("a"))
        ballast = fill(folder)
        long = "p" * 8000  # more than the manifest's last page has room for: a part of it is written
        for _ in range(2):
            with pytest.raises(StorageError, match=r"No space left on device \(ENOSPC\); make room"):
                journal.append(row("b", prompt=long))
        assert [r["id"] for r in rows_on_disk(folder)] == ["a"]
        ballast.unlink()
        journal.append(row("b", prompt=long))
        assert [r["id"] for r in rows_on_disk(folder)] == ["a", "b"]


def test_torn_row_that_could_not_be_cut_off_is_cut_before_the_next_row(tmp_path, monkeypatch):
    with small_disk(tmp_path / "disk", "64k") as folder, Journal.open(folder) as journal:
        journal.append(row("a"))
        ballast = fill(folder)

        def broken(descriptor, size):
            raise OSError(5, "Input/output error")

        with monkeypatch.context() as patch:
            patch.setattr(os, "ftruncate", broken)
            with pytest.raises(StorageError):
                journal.append(row("b", prompt="p" * 8000))
            assert not (folder / "manifest.jsonl").read_bytes().endswith(b"\n")
            with pytest.raises(StorageError, match="Input/output error"):
                journal.append(row("c"))
        ballast.unlink()
        journal.append(row("c"))
        assert [r["id"] for r in rows_on_disk(folder)] == ["a", "c"]


@pytest.mark.parametrize("replaced", [False, True])
def test_deleted_or_replaced_manifest_takes_no_rows(tmp_path, replaced):
    with Journal.open(tmp_path) as journal:
        journal.append(row("a"))
        (tmp_path / "manifest.jsonl").unlink()
        if replaced:
            (tmp_path / "manifest.jsonl").touch()
        with pytest.raises(StorageUnavailable, match="deleted or replaced while this run was writing it"):
            journal.append(row("b"))


def test_folder_deleted_before_the_run_ends_is_no_second_error(tmp_path):
    with Journal.open(tmp_path / "out") as journal:
        journal.append(row("a"))
        journal.append(row("a"))
        shutil.rmtree(tmp_path / "out")
