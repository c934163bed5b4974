"""The command line as a whole: unknown flags, and bugs."""

from pathlib import Path

import pytest

from omni_cli.cli.app import main
from tests.cli.conftest import omni_gen


def test_an_unknown_flag_exits_with_2() -> None:
    assert omni_gen("run", "x.jsonl", "--no-such-flag").returncode == 2


@pytest.mark.parametrize("writable", [True, False])
def test_a_bug_is_reported_with_its_traceback_even_if_no_file_can_be_written(
    writable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path if writable else tmp_path / "nowhere"))
    monkeypatch.setattr("omni_cli.cli.app.app", lambda: {}["no such key"])
    monkeypatch.setattr("signal.signal", lambda number, handler: None)
    with pytest.raises(SystemExit) as stopped:
        main()
    stderr = capsys.readouterr().err
    assert stopped.value.code == 3
    assert "this is a bug (KeyError)" in stderr
    trace = next(tmp_path.iterdir()).read_text() if writable else stderr
    assert "KeyError: 'no such key'" in trace
