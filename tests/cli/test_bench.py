"""`omni-gen bench` from the command line."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from omni_cli.cli.app import app
from omni_cli.errors import UsageError
from omni_cli.models.demo import WEIGHTS


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["bench", *arguments])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--resolution", "big"], "--resolution big"),
        (["--arms", "sync"], "no arm 'sync'"),
        (["--plot", "chart.pdf"], "must end in .png or .svg"),
        (["--json", "no/such/folder/report.json"], "--json no/such/folder/report.json"),
        (["--format", "bmp"], "--format"),
        (["engine", "--json", "/"], "--json /"),
        (["transport", "--clip", "huge"], "--clip huge"),
    ],
)
def test_wrong_flags_are_refused_before_anything_starts(arguments: list[str], message: str) -> None:
    error = call(*arguments).exception
    assert isinstance(error, UsageError)
    assert message in str(error)


@pytest.mark.skipif(not (WEIGHTS / "model_index.json").is_file(), reason="the demo model is not built yet")
def test_every_arm_of_the_demo_model_makes_the_same_pictures(tmp_path: Path) -> None:
    files = {name: tmp_path / f"report.{name}" for name in ("json", "trace")}
    result = call(
        *("--resolution", "64", "--requests", "2", "--rounds", "2", "--num-inference-steps", "2", "--device", "cpu"),
        *("--json", str(files["json"]), "--trace", str(files["trace"]), "--output-dir", str(tmp_path / "out")),
    )
    assert result.exit_code == 0, result.output
    report = json.loads(files["json"].read_text())
    assert report["arms"].keys() == {"no-async", "async", "plain"}
    assert report["outputs_equal"] is True
    assert report["outputs_compared"] == [
        "no-async = async: pixels of the files, 2 frames",
        "plain = async: pixels of the files, 2 frames",
    ]
    assert all(len(arm["rounds"]) == 2 for arm in report["arms"].values())
    assert "| Resolution | Async Off (QPS) | Async On (QPS) | Change |" in result.stdout
    assert "| 64×64 |" in result.stdout
    assert "round 2 of 2" in result.stderr
    assert {path.name for path in (tmp_path / "out" / "plain").iterdir()} == {"0000.png", "0001.png"}
    forwards = [row for row in json.loads(files["trace"].read_text())["traceEvents"] if row["name"] == "forward"]
    assert len(forwards) == 3 * 2
