"""Manifests of shards in one folder are seen as one, and merged by a run of all requests."""

from pathlib import Path

import pytest
from msgspec import structs

from omni_cli.errors import OutputFolderError
from omni_cli.journal import Journal, RequestStatus, manifests_version, read_manifest, read_rows
from omni_cli.journal.manifests import manifest_name, manifest_paths
from omni_cli.request import Result, Starts
from tests.factories import planned
from tests.journal.test_journal import row, write_file

ONE, TWO, THIRD = (1, 2), (2, 2), (0, 3)


def done(root: Path, name: str, run: float = 1.0, data: bytes = b"pixels") -> Result:
    starts = Starts(run=run, worker=0, forward=run, d2h=run)
    return structs.replace(row(name, files=(write_file(root, f"{name}.png", data),)), starts=starts)


def names(folder: Path) -> list[str]:
    return [path.name for path in manifest_paths(folder)]


def test_shards_write_at_the_same_time_and_see_what_was_done_before(tmp_path: Path) -> None:
    with Journal.open(tmp_path) as journal:
        journal.append(done(tmp_path, "old"))
    with Journal.open(tmp_path, ONE) as one, Journal.open(tmp_path, TWO) as two:
        assert one.compare(planned("old")).status is RequestStatus.DONE
        one.append(done(tmp_path, "a"))
        two.append(done(tmp_path, "b"))
        assert sorted(result.id for result in read_rows(tmp_path / "manifest.jsonl")) == ["a", "b", "old"]
        with read_manifest(tmp_path) as manifest:
            assert manifest.compare(planned("b")).status is RequestStatus.DONE
            assert manifest.row_with_file("B.PNG") is not None
            assert not manifest.is_empty
    assert names(tmp_path) == ["manifest.jsonl", "manifest.0-of-2.jsonl", "manifest.1-of-2.jsonl"]


def test_a_run_of_all_requests_merges_the_manifests_of_shards(tmp_path: Path) -> None:
    for shard, name in ((ONE, "a"), (TWO, "b")):
        with Journal.open(tmp_path, shard) as journal:
            journal.append(done(tmp_path, name))
    assert {result.id for result in read_rows(tmp_path / "manifest.jsonl")} == {"a", "b"}
    with Journal.open(tmp_path) as journal:
        assert journal.compare(planned("b")).status is RequestStatus.DONE
    assert names(tmp_path) == ["manifest.jsonl"]
    assert [result.id for result in read_rows(tmp_path / "manifest.jsonl")] == ["b", "a"]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_of_several_rows_a_done_one_counts_and_of_those_the_latest(tmp_path: Path, order: tuple[int, ...]) -> None:
    rows = [row("x", status="failed"), done(tmp_path, "x", 5.0, b"new"), done(tmp_path, "x", 3.0, b"older")]
    rows[1:] = [structs.replace(rows[1], index=1), structs.replace(rows[2], index=2)]
    for number, shard in zip(order, (ONE, TWO, THIRD), strict=True):
        with Journal.open(tmp_path, shard) as journal:
            journal._index.drop("x")
            journal.others = []
            journal.append(rows[number])
    assert [result.index for result in read_rows(tmp_path / "manifest.jsonl")] == [1]
    with read_manifest(tmp_path) as manifest:
        found = manifest.full_row("x")
        assert found is not None
        assert found.index == 1
    with Journal.open(tmp_path):
        pass
    assert [result.index for result in read_rows(tmp_path / "manifest.jsonl")] == [1]


def test_a_failure_of_another_shard_does_not_replace_a_done_row(tmp_path: Path) -> None:
    with Journal.open(tmp_path, ONE) as journal:
        journal.append(done(tmp_path, "a"))
    with Journal.open(tmp_path, THIRD) as journal:
        journal.append(row("a", status="failed"))
    assert [result.status for result in read_rows(tmp_path / "manifest.jsonl")] == ["done"]


def test_a_torn_row_of_a_killed_shard_is_dropped_when_manifests_are_merged(tmp_path: Path) -> None:
    with Journal.open(tmp_path, ONE) as journal:
        journal.append(done(tmp_path, "a"))
    path = tmp_path / manifest_name(ONE)
    path.write_bytes(path.read_bytes() + b'{"schema_version":2,"id":"b"')
    with Journal.open(tmp_path) as journal:
        assert journal.compare(planned("b")).status is RequestStatus.NEW
    assert [result.id for result in read_rows(tmp_path / "manifest.jsonl")] == ["a"]


@pytest.mark.parametrize(
    ("first", "second"), [(None, ONE), (ONE, None), (ONE, THIRD), (ONE, ONE), ((2, 2), (0, 2)), (None, None)]
)
def test_only_shards_of_one_number_share_a_folder(
    tmp_path: Path, first: tuple[int, int] | None, second: tuple[int, int] | None
) -> None:
    with (
        Journal.open(tmp_path, first),
        pytest.raises(OutputFolderError, match="is in use by another run"),
        Journal.open(tmp_path, second),
    ):
        pass
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".lock")]


def test_the_version_of_all_manifests_changes_with_a_row_of_any(tmp_path: Path) -> None:
    assert manifests_version(tmp_path) is None
    with Journal.open(tmp_path, ONE) as one, Journal.open(tmp_path, TWO):
        before = manifests_version(tmp_path)
        one.append(done(tmp_path, "a"))
        assert manifests_version(tmp_path) != before
