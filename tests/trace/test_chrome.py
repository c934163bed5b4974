"""The trace file: tracks, times, ids, and atomic writing."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from omni_cli.events import AnyEvent, EncodeDone, ForwardDone, ModelReady, Note, OutputArrived, RequestFinished
from omni_cli.request import Interval, Status, Timings
from omni_cli.trace import Timeline
from tests.factories import result

HOSTILE = 'a"b\\\n\x1b]0;x\x07\u202e日本\udc80'


def finished(name: str, at: float, queued: float) -> RequestFinished:
    status: Status = "failed" if name == "b" else "done"
    return RequestFinished(at=at, result=result(name, status, timings=Timings(queued=queued)))


def recorded(*events: AnyEvent) -> Timeline:
    timeline = Timeline(keep_spans=True)
    for event in events:
        timeline(event)
    return timeline


def run() -> Timeline:
    return recorded(
        ModelReady(at=100, worker=1, pipeline="FluxPipeline", device="cuda:1", dtype="bfloat16", seconds=9),
        ForwardDone(at=102, worker=1, ids=("a", "b"), forward=Interval(101, 102)),
        OutputArrived(at=102.25, worker=1, id="a", d2h=Interval(102, 102.25), bytes=77),
        EncodeDone(at=104, id="a", encode=Interval(102.25, 103), write=Interval(103, 104)),
        EncodeDone(at=104.5, id="b", encode=Interval(102.5, 103.5), write=Interval(103.5, 104.5)),
        EncodeDone(at=106, id="c", encode=Interval(104, 105), write=Interval(105, 106)),
        Note(at=103, level="warning", text="worker 1 restarted"),
        finished("a", 104, queued=1.5),
        finished("b", 104.5, queued=0),
    )


def rows(timeline: Timeline, tmp_path: Path) -> list[dict[str, Any]]:
    path = tmp_path / "trace.json"
    timeline.write_chrome_trace(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["trace.json"]
    return json.loads(path.read_text("utf-8"))["traceEvents"]  # type: ignore[no-any-return]


def spans_by_track(events: list[dict[str, Any]]) -> dict[str, list[tuple[Any, ...]]]:
    """Group spans by the names of their process and thread, as a viewer shows them."""
    process = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    thread = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    shown: dict[str, list[tuple[Any, ...]]] = {}
    for e in events:
        if e["ph"] == "X":
            title = f"{process[e['pid']]} / {thread[e['pid'], e['tid']]}"
            shown.setdefault(title, []).append((e["name"], e["ts"], e["dur"], e["args"]))
    return shown


def test_each_stream_output_thread_and_writer_is_a_named_track_in_microseconds(tmp_path: Path) -> None:
    worker = "worker 1 · FluxPipeline · cuda:1 · bfloat16"
    # The wait of "a" is the earliest: 99.5 s on the clock is ts 0.
    assert spans_by_track(rows(run(), tmp_path)) == {
        f"{worker} / stream": [("forward", 1.5e6, 1e6, {"ids": ["a", "b"]})],
        f"{worker} / output thread": [("d2h", 2.5e6, 0.25e6, {"id": "a", "bytes": 77})],
        "omni-gen / writer 1": [
            ("encode", 2.75e6, 0.75e6, {"id": "a"}),
            ("write", 3.5e6, 1e6, {"id": "a"}),
            ("encode", 4.5e6, 1e6, {"id": "c"}),
            ("write", 5.5e6, 1e6, {"id": "c"}),
        ],
        "omni-gen / writer 2": [("encode", 3.0e6, 1e6, {"id": "b"}), ("write", 4.0e6, 1e6, {"id": "b"})],
    }


def test_waits_are_asynchronous_spans_and_failures_are_instants(tmp_path: Path) -> None:
    events = rows(run(), tmp_path)
    begin, end = (event for event in events if event["ph"] in "be")
    assert (begin["ts"], begin["args"], end["ts"]) == (0, {"id": "a"}, 1.5e6)
    assert begin["id"] == end["id"]
    assert {event["name"]: event["ts"] for event in events if event["ph"] == "i"} == {
        "worker 1 restarted": 3.5e6,
        "b failed": 5.0e6,
    }


def test_ids_with_control_characters_and_surrogates_are_encoded(tmp_path: Path) -> None:
    events = rows(recorded(ForwardDone(at=1, worker=0, ids=(HOSTILE,), forward=Interval(0, 1))), tmp_path)
    assert [e["args"]["id"] for e in events if e["ph"] == "X"] == [HOSTILE.replace("\udc80", "?")]


def test_a_run_without_spans_gives_a_valid_empty_trace(tmp_path: Path) -> None:
    assert {event["ph"] for event in rows(recorded(), tmp_path)} == {"M"}


def test_a_failed_write_keeps_the_older_trace_and_leaves_no_partial_file(tmp_path: Path) -> None:
    (tmp_path / "trace.json").mkdir()
    with pytest.raises(OSError, match=r"trace\.json"):
        run().write_chrome_trace(tmp_path / "trace.json")
    assert [entry.name for entry in tmp_path.iterdir()] == ["trace.json"]


def test_a_pipe_is_written_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        recorded().write_chrome_trace(pipe)
        assert json.loads(os.read(reader, 1 << 16))["displayTimeUnit"] == "ms"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
