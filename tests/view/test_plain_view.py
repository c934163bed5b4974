"""Plain lines: throttled, without escape sequences."""

import io
from collections.abc import Callable

from omni_cli.events import AnyEvent, ModelLoading, Note, RequestFinished, RunStarted
from omni_cli.view import open_view
from omni_cli.view.plain_view import PROGRESS_INTERVAL_S
from tests.view.conftest import wait_for


def test_lines_of_a_whole_run(opening: list[AnyEvent], middle: list[AnyEvent], closing: list[AnyEvent]) -> None:
    stream = io.StringIO()
    with open_view("plain", stream=stream, environ={}, clock=lambda: 16) as observe:
        for event in opening + middle:
            observe(event)
        wait_for(lambda: "1/3" in stream.getvalue())
        for event in closing:
            observe(event)
    assert stream.getvalue().splitlines() == [
        "omni-gen: 3 requests to render with demo, 2 already done",
        "omni-gen: worker 0: loading transformer",
        "omni-gen: worker 0: DemoPipeline on cpu, float32, ready after 1.5 s",
        "omni-gen: 1/3 done, 15/min, ETA 8.0 s",
        "omni-gen: error: c: write_failed: out of memory [bold]␛[2J",
        "omni-gen: finished: 2 done, 1 failed, 2 already done in 5.0 s, 24/min",
        "omni-gen: forward 3.0 s in 2 forwards; D2H 1.0 s, 1.0 MiB moved and 512 B copied per request; encode 1.2 s; "
        "write 500 ms; "
        "hidden 50 % of output time behind forwards; device idle 0 % between forwards, longest gap 0 ms",
        "omni-gen: files in out",
    ]


def test_progress_is_written_at_the_first_result_and_then_at_intervals(finish: Callable[..., RequestFinished]) -> None:
    stream, now = io.StringIO(), [10.0]
    with open_view("plain", stream=stream, environ={}, clock=lambda: now[0]) as observe:
        observe(RunStarted(at=10, total=100, skipped=0, model="demo", output_dir="o"))
        observe(finish("r0", 10))
        wait_for(lambda: "1/100 done" in stream.getvalue())
        for n in range(1, 50):
            observe(finish(f"r{n}", 11))
        observe(Note(at=11, level="info", text="a marker"))
        wait_for(lambda: "a marker" in stream.getvalue())
        assert stream.getvalue().count("/100 done") == 1
        now[0] += PROGRESS_INTERVAL_S
        observe(finish("r50", 15))
        wait_for(lambda: "51/100 done" in stream.getvalue())


def test_loading_is_written_once_per_wording_and_lines_are_printable_and_short() -> None:
    stream = io.StringIO()
    with open_view("plain", stream=stream, environ={}) as observe:
        for _ in range(50):
            observe(ModelLoading(at=1, worker=0, what="vae"))
        observe(Note(at=1, level="warning", text="one\ntwo\x1b[31m\r" + "x" * 9000))
    loading, warning = stream.getvalue().splitlines()
    assert loading == "omni-gen: worker 0: loading vae"
    assert warning.startswith("omni-gen: warning: one␊two␛[31m␍xxx")
    assert (len(warning), warning[-3:]) == (1000, "...")


def test_a_run_that_never_started_has_no_summary() -> None:
    stream = io.StringIO()
    with open_view("plain", stream=stream, environ={}):
        pass
    assert stream.getvalue() == ""
