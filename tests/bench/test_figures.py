"""Figures of rounds with known times."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from omni_cli.bench.arms import Measurement
from omni_cli.bench.figures import overlap_figures, without_last_output, write_trace
from omni_cli.events import EncodeDone, ForwardDone
from tests.bench.conftest import MakeRound


def test_output_beside_the_next_forward_is_hidden_and_the_last_output_is_left_out(make_round: MakeRound) -> None:
    flow = overlap_figures([make_round(4, 1.0, 0.25, hidden=True)])
    assert flow.output_hidden == pytest.approx(1.0)
    assert flow.device_idle == pytest.approx(0.0)
    assert flow.longest_gap == pytest.approx(0.0)
    assert flow.bytes_moved == 1000


def test_output_between_forwards_is_idle_time_and_not_hidden(make_round: MakeRound) -> None:
    flow = overlap_figures([make_round(4, 1.0, 0.25, hidden=False)])
    assert flow.output_hidden == pytest.approx(0.0)
    assert flow.device_idle == pytest.approx(3 * 0.25 / (4 * 1.0 + 3 * 0.25))
    assert flow.longest_gap == pytest.approx(0.25)


def test_output_longer_than_a_forward_is_hidden_as_far_as_forwards_reach(make_round: MakeRound) -> None:
    assert overlap_figures([make_round(2, 1.0, 4.0, hidden=True)]).output_hidden == pytest.approx(0.25)


def test_longest_gap_is_the_maximum_over_rounds(make_round: MakeRound) -> None:
    rounds = [make_round(3, 1.0, gap, hidden=False) for gap in (0.1, 0.7, 0.2)]
    assert overlap_figures(rounds).longest_gap == pytest.approx(0.7)


def test_a_single_call_has_no_hidden_share(make_round: MakeRound) -> None:
    assert overlap_figures([make_round(1, 1.0, 0.25, hidden=True)]).output_hidden is None


def test_all_requests_of_the_last_call_are_left_out(make_round: MakeRound) -> None:
    whole = make_round(3, 1.0, 0.25, hidden=True)
    *_, last, _, encode = whole.events
    assert isinstance(last, ForwardDone)
    assert isinstance(encode, EncodeDone)
    both = replace(last, ids=(*last.ids, "twin"))
    events = [*(both if event is last else event for event in whole.events), replace(encode, id="twin")]
    remaining = [event.id for event in without_last_output(events) if isinstance(event, EncodeDone)]
    assert remaining == ["0000", "0001"]


def test_the_trace_shows_each_arm_as_a_worker_with_its_own_requests(measurement: Measurement, tmp_path: Path) -> None:
    write_trace(tmp_path / "trace.json", measurement)
    rows = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    workers = {row["pid"]: row["args"]["name"] for row in rows if row["name"] == "process_name" and row["pid"] > 1}
    assert sorted(name.split(" · ")[1] for name in workers.values()) == ["async", "no-async", "plain"]
    for pid, name in workers.items():
        forwards = [row for row in rows if row["name"] == "forward" and row["pid"] == pid]
        assert {row["args"]["id"].split("/")[0] for row in forwards} == {name.split(" · ")[1]}
        assert len(forwards) == 4
