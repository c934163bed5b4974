"""Figures of rounds whose times are known."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from omni_cli.bench.arms import Ready
from omni_cli.bench.conduct import Measured
from omni_cli.bench.figures import flow_of, steady, write_trace
from omni_cli.events import EncodeDone, ForwardDone
from omni_cli.request import Interval
from tests.bench.conftest import MakeRound


def test_output_beside_the_next_forward_is_hidden_but_for_the_last_which_is_left_out(make_round: MakeRound) -> None:
    flow = flow_of([make_round(4, 1.0, 0.25, hidden=True)])
    assert flow.output_hidden == pytest.approx(1.0)
    assert flow.device_idle == pytest.approx(0.0)
    assert flow.longest_gap == pytest.approx(0.0)
    assert flow.bytes_moved == 1000


def test_output_between_forwards_is_idle_time_and_not_hidden(make_round: MakeRound) -> None:
    flow = flow_of([make_round(4, 1.0, 0.25, hidden=False)])
    assert flow.output_hidden == pytest.approx(0.0)
    assert flow.device_idle == pytest.approx(3 * 0.25 / (4 * 1.0 + 3 * 0.25))
    assert flow.longest_gap == pytest.approx(0.25)


def test_output_longer_than_a_forward_is_hidden_as_far_as_forwards_reach(make_round: MakeRound) -> None:
    assert flow_of([make_round(2, 1.0, 4.0, hidden=True)]).output_hidden == pytest.approx(0.25)


def test_the_longest_gap_is_that_of_the_worst_round(make_round: MakeRound) -> None:
    rounds = [make_round(3, 1.0, gap, hidden=False) for gap in (0.1, 0.7, 0.2)]
    assert flow_of(rounds).longest_gap == pytest.approx(0.7)


def test_one_call_alone_says_nothing_of_hiding(make_round: MakeRound) -> None:
    assert flow_of([make_round(1, 1.0, 0.25, hidden=True)]).output_hidden is None


def test_the_last_call_is_left_out_whole_when_each_of_its_requests_tells_of_its_forward(make_round: MakeRound) -> None:
    """As on an accelerator, whose clock puts the ends of one forward a microsecond apart."""
    whole = make_round(3, 1.0, 0.25, hidden=True)
    *_, last, _, encode = whole.events
    assert isinstance(last, ForwardDone)
    assert isinstance(encode, EncodeDone)
    twin = replace(last, ids=("twin",), forward=Interval(last.forward.start, last.forward.end + 1e-6))
    events = [*whole.events, twin, replace(encode, id="twin")]
    left = [event.id for event in steady(events) if isinstance(event, EncodeDone)]
    assert left == ["0000", "0001"]


def test_the_trace_draws_each_arm_as_a_worker_with_its_own_requests(measured: Measured, tmp_path: Path) -> None:
    last = {name: rounds[-1] for name, rounds in measured.rounds.items()}
    ready = {name: Ready(1.0, "WanPipeline", "cpu", "float32") for name in last}
    write_trace(tmp_path / "trace.json", last, ready)
    rows = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    workers = {row["pid"]: row["args"]["name"] for row in rows if row["name"] == "process_name" and row["pid"] > 1}
    assert sorted(name.split(" · ")[1] for name in workers.values()) == ["async", "no-async", "plain"]
    for pid, name in workers.items():
        forwards = [row for row in rows if row["name"] == "forward" and row["pid"] == pid]
        assert {row["args"]["id"].split("/")[0] for row in forwards} == {name.split(" · ")[1]}
        assert len(forwards) == 4
