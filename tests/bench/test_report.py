"""The document and its text, against numbers worked out by hand."""

import json

import msgspec
import pytest

from omni_cli.bench.conduct import Measured
from omni_cli.bench.report import RatioReport, Report, Settings, summarize
from omni_cli.bench.table import render, worth
from omni_cli.bench.verify import Check
from omni_cli.writers.readback import Difference

MACHINE: dict[str, str | int] = {"processor": "Test", "cores": 2}
EQUAL = Check("plain", "async", "pixels of the files", Difference(0, 4), 0)


@pytest.fixture
def report(measured: Measured, settings: Settings) -> Report:
    return summarize(measured, [EQUAL], MACHINE, settings)


def test_the_document_has_the_agreed_fields_and_the_right_numbers(report: Report) -> None:
    document = json.loads(msgspec.json.encode(report))
    assert document["schema_version"] == 1
    assert document["machine"] == MACHINE
    assert document["settings"]["rounds"] == 3
    # Async: four forwards of 1.1 s and the last output of 0.25 s. The others: four times both.
    asynchronous, synchronous = (4 * 1.1 + 0.25) / 4, 1.1 + 0.25
    arm = document["arms"]["async"]
    assert arm["qps"] == pytest.approx(1 / asynchronous)
    assert arm["seconds_per_request"] == pytest.approx(
        {"median": asynchronous, "min": (4 + 0.25) / 4, "max": (4.8 + 0.25) / 4}
    )
    assert arm["rounds"] == pytest.approx([1.0625, 1.1625, 1.2625])
    assert document["ratios"].keys() == {"async/no-async", "async/plain", "no-async/plain"}
    assert document["ratios"]["async/plain"]["median"] == pytest.approx(synchronous / asynchronous)
    assert document["ratios"]["async/plain"]["ci95"] == pytest.approx([1.45 / 1.2625, 1.25 / 1.0625])
    assert document["ratios"]["no-async/plain"]["ci95"] == pytest.approx([1.0, 1.0])
    assert document["output_hidden_pct"] == pytest.approx(100)
    assert document["device_idle_pct"] == pytest.approx(0)
    assert document["longest_gap_ms"] == pytest.approx(0)
    assert document["output_share_of_plain_pct"] == pytest.approx(100 * 0.25 / 1.35)
    assert document["output_recovered"]["median"] == pytest.approx((1.35 - 1.1625) / 0.25)
    assert document["outputs_equal"] is True
    assert msgspec.json.decode(msgspec.json.encode(report), type=Report) == report


def test_the_text_is_the_table_of_the_seed_document_and_what_it_means(report: Report) -> None:
    assert render(report) == (
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
        "Saving takes 18.5 % of the plain loop's time: hiding all of it is worth 1.23x; async recovers 75 % [75, 75] of that.\n"
        "From device to host: 1000 B per request.\n"
        "Output hidden is of the steady state: the last output of a round has no forward to hide behind."
        " Model load is in no other figure.\n"
        "\n"
        "Outputs: plain = async: pixels of the files, 4 frames.\n"
    )


@pytest.mark.parametrize(
    ("median", "ci95", "said"),
    [
        (1.06, (1.03, 1.09), "async is 1.060x [1.030, 1.090] of plain"),
        (1.01, (0.97, 1.05), "async is 1.010x [0.970, 1.050] of plain: within the noise on this load"),
        (0.9, (0.85, 0.95), "async is 0.900x [0.850, 0.950] of plain: slower on this load"),
        (1.2, None, "async is 1.200x of plain: one round alone proves nothing"),
    ],
)
def test_what_it_is_worth_is_said_plainly(median: float, ci95: tuple[float, float] | None, said: str) -> None:
    assert worth("async", "plain", RatioReport(median=median, ci95=ci95)) == said


def test_outputs_that_differ_make_the_times_worthless_and_say_so(measured: Measured, settings: Settings) -> None:
    check = Check("plain", "async", "pixels of the files", Difference(3, 4), 0)
    report = summarize(measured, [check], MACHINE, settings)
    assert not report.outputs_equal
    assert "plain ≠ async: pixels of the files, 4 frames, at most 3 of 255 levels apart" in render(report)
    assert "OUTPUTS DIFFER" in render(report)


@pytest.mark.parametrize(
    ("levels", "allowed", "passed"), [(0, 0, True), (1, 0, False), (1, 1, True), (2, 1, False), (256, None, True)]
)
def test_a_check_allows_what_its_arms_may_differ_by(levels: int, allowed: int | None, passed: bool) -> None:
    assert Check("plain", "async", "levels", Difference(levels, 1), allowed).passed is passed


def test_a_name_that_is_hostile_is_shown_harmless(measured: Measured, settings: Settings) -> None:
    hostile = msgspec.structs.replace(settings, model="\x1b[31mred\n|x")
    assert "\x1b" not in render(summarize(measured, [EQUAL], MACHINE, hostile))
