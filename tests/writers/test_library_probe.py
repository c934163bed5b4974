"""What a library can do is asked once per installation of it."""

import importlib
import os
from pathlib import Path

import pytest

from omni_cli.writers.codecs import has_pyav_encoder
from omni_cli.writers.library_probe import is_able


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / "probed_package.py"
    path.write_text("")
    importlib.invalidate_caches()
    return path


@pytest.mark.parametrize("answer", [True, False])
def test_the_answer_is_kept_until_the_package_is_installed_anew(package: Path, tmp_path: Path, answer: bool) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    asked: list[str] = []

    def ask(ability: str) -> bool:
        return is_able("probed_package", ability, lambda: not asked.append(ability) and answer, environ)

    assert [ask("x"), ask("x"), ask("y")] == [answer] * 3
    assert asked == ["x", "y"]
    os.utime(package, (1, 1))
    assert ask("x") == answer
    assert asked == ["x", "y", "x"]


def test_a_package_that_is_not_installed_is_asked_each_time(tmp_path: Path) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    assert is_able("no_such_package", "x", lambda: True, environ)
    assert not is_able("no_such_package", "x", lambda: False, environ)


def test_encoders_are_those_of_the_library() -> None:
    for _ in range(2):
        assert has_pyav_encoder("libx264")
        assert not has_pyav_encoder("no-such-encoder")
