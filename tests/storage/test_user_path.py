"""`~` in paths, also for a user without a name and a home folder."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from omni_cli.storage.user_path import expand_user

ROOT = Path(__file__).parent.parent.parent


def test_home_folder_is_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somewhere")
    assert expand_user("~/a.png") == Path("/somewhere/a.png")
    assert expand_user(Path("b~/a.png")) == Path("b~/a.png")


def test_unknown_user_is_left_as_it_is() -> None:
    assert expand_user("~no-such-user/a.png") == Path("~no-such-user/a.png")


def test_no_home_folder_is_no_error() -> None:
    if os.geteuid() != 0:
        pytest.skip("becoming a user without a name takes root")
    imports = "from omni_cli.storage.user_path import expand_user"
    program = f"{imports}\nimport os\nos.setuid(12345)\nos.environ.pop('HOME', None)\nprint(expand_user('~/a'))"
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.stdout == "~/a\n", ended.stderr


def test_no_module_expands_a_path_in_another_way() -> None:
    pattern = re.compile(r"\.expanduser\(|Path\.home\(")
    users = [
        path.name for path in (ROOT / "omni_cli").rglob("*.py") if pattern.search(path.read_text(encoding="utf-8"))
    ]
    assert users == ["user_path.py"]
