"""Derived values in the user's cache folder: whole or not there, whoever writes at once."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from omni_cli.storage import user_cache
from omni_cli.storage.user_cache import cache_key, read_cached, write_cached

VALUE = {"a": 1, "b": 2}


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(tmp_path / "cache")}


def test_a_value_is_read_back_by_kind_key_and_type(environ: dict[str, str]) -> None:
    write_cached("facts", "a", VALUE, environ)
    assert read_cached("facts", "a", dict[str, int], environ) == VALUE
    assert read_cached("facts", "b", dict[str, int], environ) is None
    assert read_cached("other", "a", dict[str, int], environ) is None
    assert read_cached("facts", "a", dict[str, str], environ) is None


def test_keys_differ_with_each_part() -> None:
    assert cache_key("a", {"x": 1, "y": 2}) == cache_key("a", {"y": 2, "x": 1})
    assert len({cache_key("ab"), cache_key("a", "b"), cache_key("a", {"b": 1}), cache_key("a", {"b": 2})}) == 4


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"a": 1, "b"'])
def test_a_file_that_cannot_be_used_is_as_good_as_none(environ: dict[str, str], content: bytes) -> None:
    write_cached("facts", "a", VALUE, environ)
    (file,) = Path(environ["XDG_CACHE_HOME"]).rglob("*.json")
    file.write_bytes(content)
    assert read_cached("facts", "a", dict[str, int], environ) is None
    write_cached("facts", "a", VALUE, environ)
    assert read_cached("facts", "a", dict[str, int], environ) == VALUE


@pytest.mark.parametrize("place", ["relative", "{}/file", "/proc"])
def test_without_a_folder_that_can_be_written_nothing_is_kept(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    environ = {"XDG_CACHE_HOME": place.format(tmp_path)}
    write_cached("facts", "a", VALUE, environ)
    assert read_cached("facts", "a", dict[str, int], environ) is None


def test_many_writers_leave_whole_files_and_no_others(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_cache, "MAX_ENTRIES", 3)

    def write(number: int) -> None:
        for key in "abcde":
            write_cached("facts", key, VALUE, environ)
            assert read_cached("facts", key, dict[str, int], environ) in (VALUE, None)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    files = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert 0 < len(files) <= 3
    assert all(read_cached("facts", path.stem, dict[str, int], environ) == VALUE for path in files)
