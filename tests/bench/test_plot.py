"""The chart."""

from collections import Counter
from importlib import util
from pathlib import Path

import pytest

from omni_cli.bench.conduct import Measured
from omni_cli.bench.plot import check_plot, spans_of, write_plot
from omni_cli.bench.report import Settings, summarize
from omni_cli.bench.run import Outcome
from omni_cli.errors import UsageError

needs_matplotlib = pytest.mark.skipif(util.find_spec("matplotlib") is None, reason="the extra plot is not installed")


@pytest.fixture
def outcome(measured: Measured, settings: Settings) -> Outcome:
    return Outcome(summarize(measured, [], {}, settings), measured)


def test_a_chart_that_cannot_be_drawn_is_refused_before_anything_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"\.png or \.svg"):
        check_plot(Path("chart.pdf"))
    monkeypatch.setattr("omni_cli.bench.plot.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'omni-gen\[plot\]'"):
        check_plot(Path("chart.png"))


def test_every_forward_copy_and_file_of_a_round_is_drawn(measured: Measured) -> None:
    kinds = Counter(kind for kind, _ in spans_of(measured.rounds["async"][-1]))
    assert kinds == {"forward": 4, "D2H": 4, "encode, write": 4}
    assert "D2H" not in {kind for kind, _ in spans_of(measured.rounds["plain"][-1])}


@needs_matplotlib
def test_the_suffix_says_what_is_drawn(outcome: Outcome, tmp_path: Path) -> None:
    write_plot(tmp_path / "chart.png", outcome)
    write_plot(tmp_path / "chart.svg", outcome)
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "chart.svg").read_text()


@needs_matplotlib
def test_the_same_bench_gives_the_same_svg(outcome: Outcome, tmp_path: Path) -> None:
    write_plot(tmp_path / "a.svg", outcome)
    write_plot(tmp_path / "b.svg", outcome)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
