"""`--progress json`: lines decode to the events, and the last one is always `run_finished`."""

import io
import json
import os
import threading
from collections.abc import Callable

import msgspec
import pytest

from omni_cli.errors import Interrupted, WorkerDied
from omni_cli.events import AnyEvent, ForwardStep, Note, RequestFinished, RunFinished, RunStarted
from omni_cli.view import open_view
from omni_cli.view.json_view import MAX_BACKLOG

decode = msgspec.json.Decoder(AnyEvent).decode


def test_lines_decode_to_the_events_in_order(
    opening: list[AnyEvent], middle: list[AnyEvent], closing: list[AnyEvent]
) -> None:
    stream = io.StringIO()
    with open_view("json", stream=stream, environ={}) as observe:
        for event in opening + middle + closing:
            observe(event)
    assert [decode(line) for line in stream.getvalue().splitlines()] == opening + middle + closing
    assert json.loads(stream.getvalue().splitlines()[0])["version"] == 1


def test_lines_are_written_during_the_run(opening: list[AnyEvent]) -> None:
    read, write = os.pipe()
    with os.fdopen(write, "w") as stream, os.fdopen(read) as lines, open_view("json", stream=stream) as observe:
        observe(opening[0])
        assert decode(lines.readline()) == opening[0]


@pytest.mark.parametrize(
    ("error", "exit_code", "reason"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (Interrupted("stopped by SIGINT"), 130, "stopped by SIGINT"),
        (WorkerDied("worker 0 was killed by SIGKILL"), 3, "worker 0 was killed by SIGKILL"),
        (ZeroDivisionError("oops"), 3, "ZeroDivisionError: oops"),
        (SystemExit(2), 2, "exit"),
    ],
)
def test_a_run_that_raises_ends_with_run_finished_and_the_reason(
    error: BaseException, exit_code: int, reason: str, opening: list[AnyEvent], middle: list[AnyEvent]
) -> None:
    stream = io.StringIO()

    def run() -> None:
        with open_view("json", stream=stream, environ={}) as observe:
            for event in opening + middle:
                observe(event)
            raise error

    with pytest.raises(type(error)):
        run()
    last = decode(stream.getvalue().splitlines()[-1])
    assert isinstance(last, RunFinished)
    assert (last.exit_code, last.reason, last.done, last.not_run) == (exit_code, reason, 1, 2)


def test_nothing_follows_run_finished(closing: list[AnyEvent]) -> None:
    stream = io.StringIO()
    with open_view("json", stream=stream, environ={}) as observe:
        for event in [*closing, Note(at=99, level="info", text="late"), closing[-1]]:
            observe(event)
    assert [decode(line) for line in stream.getvalue().splitlines()] == closing


def test_a_path_that_is_not_unicode_is_written_with_question_marks() -> None:
    stream = io.StringIO()
    with open_view("json", stream=stream, environ={}) as observe:
        observe(RunStarted(at=1, total=1, skipped=0, model="demo", output_dir="caf\udce9"))
    assert json.loads(stream.getvalue().splitlines()[0])["output_dir"] == "caf?"


def test_a_slow_reader_blocks_nobody_and_loses_only_steps(finish: Callable[..., RequestFinished]) -> None:
    read, write = os.pipe()
    received = bytearray()

    def drain() -> None:
        while chunk := os.read(read, 1 << 16):
            received.extend(chunk)

    reader = threading.Thread(target=drain)
    with os.fdopen(write, "w") as stream, open_view("json", stream=stream, environ={}) as observe:
        for n in range(2 * MAX_BACKLOG):
            observe(finish(f"r{n}", n))
        for n in range(MAX_BACKLOG):
            observe(ForwardStep(at=1, worker=0, ids=("a",), step=n, total=9))
        reader.start()
    reader.join()
    os.close(read)
    events = [decode(line) for line in received.splitlines()]
    assert sum(isinstance(event, RequestFinished) for event in events) == 2 * MAX_BACKLOG
    assert sum(isinstance(event, ForwardStep) for event in events) == 0
    assert isinstance(events[-1], RunFinished)
