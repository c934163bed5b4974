"""A model's files are hashed once, and again when one of them changes."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from omni_cli.models.content_revision import content_revision
from omni_cli.planner.facts import known_revision as module
from omni_cli.planner.facts.known_revision import NotHashed, known_revision


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose times are of long ago: the clock of the cache is an hour ahead."""
    folder = tmp_path / "model"
    (folder / "vae").mkdir(parents=True)
    (folder / "model_index.json").write_text("{}")
    (folder / "vae" / "weights.safetensors").write_bytes(b"weights")
    now = module.time.time
    monkeypatch.setattr(module.time, "time", lambda: now() + 3600)
    return folder


@pytest.fixture
def revision(tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[str, bool]]:
    """Return a function that gives the revision of `model`, and whether its files were read for it."""
    reads: list[Path] = []

    def read(path: Path) -> str:
        reads.append(path)
        return content_revision(path)

    monkeypatch.setattr(module, "content_revision", read)

    def known(path: Path = model, *, quick: bool = False) -> tuple[str, bool]:
        reads.clear()
        return known_revision(path, {"XDG_CACHE_HOME": str(tmp_path / "cache")}, quick=quick), bool(reads)

    return known


def rewrite(model: Path) -> None:
    """Change a file as little as can be: same size, same modification time."""
    weights = model / "vae" / "weights.safetensors"
    status = weights.stat()
    weights.write_bytes(b"WEIGHTS")
    os.utime(weights, ns=(status.st_atime_ns, status.st_mtime_ns))


def add(model: Path) -> None:
    (model / "vae" / "config.json").write_text("{}")


def rename(model: Path) -> None:
    (model / "vae").rename(model / "unet")


@pytest.mark.parametrize("change", [rewrite, add, rename])
def test_files_are_read_again_only_after_a_change(
    model: Path, revision: Callable[..., tuple[str, bool]], change: Callable[[Path], None]
) -> None:
    before = content_revision(model)
    assert [revision(), revision()] == [(before, True), (before, False)]
    change(model)
    after = content_revision(model)
    assert after != before
    assert [revision(), revision()] == [(after, True), (after, False)]


def test_files_of_the_last_moment_are_read_each_time(
    model: Path, revision: Callable[..., tuple[str, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    environ = {"XDG_CACHE_HOME": str(model.parent / "cache")}
    known_revision(model, environ)
    assert not (model.parent / "cache").exists()


def test_many_bytes_are_hashed_only_if_asked(
    model: Path, revision: Callable[..., tuple[str, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "QUICK_BYTES", 5)
    with pytest.raises(NotHashed):
        revision(quick=True)
    assert revision() == (content_revision(model), True)
    assert revision(quick=True) == (content_revision(model), False)


def test_a_folder_of_the_hub_is_its_commit(tmp_path: Path, revision: Callable[..., tuple[str, bool]]) -> None:
    snapshot = tmp_path / "snapshots" / ("a" * 40)
    snapshot.mkdir(parents=True)
    assert revision(snapshot, quick=True)[0] == "a" * 40
    assert not (tmp_path / "cache").exists()
