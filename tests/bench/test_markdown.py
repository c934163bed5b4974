"""The Markdown text of a report."""

import msgspec
import pytest

from omni_cli.bench.arms import Measurement
from omni_cli.bench.equality import OutputComparison
from omni_cli.bench.markdown import describe_ratio, render_markdown
from omni_cli.bench.report import BenchSettings, Report, summarize
from omni_cli.bench.stats import Ratio
from omni_cli.writers.readback import Difference


def test_markdown_has_the_tables_and_what_they_mean(report: Report) -> None:
    assert render_markdown(report) == (
        "demo (WanPipeline, float32 on cpu): 768×512, 8 steps, guidance 3, png, 3 rounds of 4 requests\n"
        "processor Test, cores 2\n"
        "\n"
        "| Resolution | Async Off (QPS) | Async On (QPS) | Change |\n"
        "|---|---|---|---|\n"
        "| 768×512 | 0.7407 | 0.8602 | +16.13% [+14.85, +17.65] |\n"
        "\n"
        "| Arm | QPS | s per request: median [min, max] | Against plain [95 % CI] | Device idle | Longest gap |"
        " Output hidden | Model load |\n"
        "|---|---|---|---|---|---|---|---|\n"
        "| no-async | 0.7407 | 1.3500 [1.2500, 1.4500] | 1.000x [1.000, 1.000] | 14.6 % | 250.0 ms | 0.0 % | 4.5 s |\n"
        "| async | 0.8602 | 1.1625 [1.0625, 1.2625] | 1.161x [1.149, 1.176] | 0.0 % | 0.0 ms | 100.0 % | 4.5 s |\n"
        "| plain | 0.7407 | 1.3500 [1.2500, 1.4500] | 1 | 14.6 % | 250.0 ms | 0.0 % | 4.5 s |\n"
        "\n"
        "async is 1.161x [1.149, 1.176] of no-async.\n"
        "no-async is 1.000x [1.000, 1.000] of plain: within the noise on this load.\n"
        "async is 1.161x [1.149, 1.176] of plain.\n"
        "Saving takes 18.5 % of the plain loop's time: hiding all of it is worth 1.23x;"
        " async recovers 75 % [75, 75] of that.\n"
        "From device to host: 1000 B per request.\n"
        "Output hidden is of the steady state: the last output of a round has no forward to hide behind."
        " Model load is in no other figure.\n"
        "\n"
        "Outputs: plain = async: pixels of the files, 4 frames.\n"
    )


@pytest.mark.parametrize(
    ("median", "ci95", "sentence"),
    [
        (1.06, (1.03, 1.09), "async is 1.060x [1.030, 1.090] of plain"),
        (1.01, (0.97, 1.05), "async is 1.010x [0.970, 1.050] of plain: within the noise on this load"),
        (0.9, (0.85, 0.95), "async is 0.900x [0.850, 0.950] of plain: slower on this load"),
        (1.2, None, "async is 1.200x of plain: one round alone proves nothing"),
    ],
)
def test_a_ratio_within_the_noise_says_so(median: float, ci95: tuple[float, float] | None, sentence: str) -> None:
    assert describe_ratio("async", "plain", Ratio(median, ci95)) == sentence


def test_differing_outputs_are_reported(measurement: Measurement, settings: BenchSettings) -> None:
    comparison = OutputComparison("plain", "async", "pixels of the files", Difference(3, 4), 0)
    report = summarize(measurement, [comparison], {}, settings)
    assert not report.outputs_equal
    assert "plain ≠ async: pixels of the files, 4 frames, at most 3 of 255 levels apart" in render_markdown(report)
    assert "OUTPUTS DIFFER" in render_markdown(report)


def test_control_characters_in_a_model_name_are_escaped(measurement: Measurement, settings: BenchSettings) -> None:
    hostile = msgspec.structs.replace(settings, model="\x1b[31mred\n|x")
    assert "\x1b" not in render_markdown(summarize(measurement, [], {}, hostile))
