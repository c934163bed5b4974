"""The chart of a bench."""

from collections import Counter
from importlib import util
from pathlib import Path

import pytest

from omni_cli.bench.arms import Measurement
from omni_cli.bench.plot import check_plot, round_spans, write_plot
from omni_cli.bench.report import BenchSettings, summarize
from omni_cli.bench.run_bench import Outcome
from omni_cli.errors import UsageError

needs_matplotlib = pytest.mark.skipif(util.find_spec("matplotlib") is None, reason="the extra plot is not installed")


@pytest.fixture
def outcome(measurement: Measurement, settings: BenchSettings) -> Outcome:
    return Outcome(summarize(measurement, [], {}, settings), measurement)


def test_a_chart_that_cannot_be_drawn_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"\.png or \.svg"):
        check_plot(Path("chart.pdf"))
    monkeypatch.setattr("omni_cli.bench.plot.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'omni-gen\[plot\]'"):
        check_plot(Path("chart.png"))


def test_each_forward_copy_and_file_of_a_round_is_drawn(measurement: Measurement) -> None:
    kinds = Counter(kind for kind, _ in round_spans(measurement.rounds["async"][-1]))
    assert kinds == {"forward": 4, "D2H": 4, "encode, write": 4}
    assert "D2H" not in {kind for kind, _ in round_spans(measurement.rounds["plain"][-1])}


@needs_matplotlib
def test_the_suffix_chooses_the_format(outcome: Outcome, tmp_path: Path) -> None:
    write_plot(tmp_path / "chart.png", outcome)
    write_plot(tmp_path / "chart.svg", outcome)
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "chart.svg").read_text()


@needs_matplotlib
def test_the_same_bench_gives_the_same_svg(outcome: Outcome, tmp_path: Path) -> None:
    write_plot(tmp_path / "a.svg", outcome)
    write_plot(tmp_path / "b.svg", outcome)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
