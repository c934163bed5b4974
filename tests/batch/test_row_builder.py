"""Rows of the manifest, by how a request ended."""

import time

import pytest
from msgspec import structs

from omni_cli.batch.row_builder import Origin, RowBuilder, total
from omni_cli.errors import ForwardError
from omni_cli.request import UNNAMED_DEVICE, ExecutedOn, Interval, ModelInfo, Provenance, Starts
from tests.batch.conftest import OutputMemory
from tests.factories import planned


def test_intervals_of_several_files_add_up() -> None:
    assert total([Interval(10, 12), Interval(20, 23)]) == Interval(10, 15)
    assert total([]) == Interval(0, 0)


MODEL = ModelInfo(id="m", revision=None, pipeline="P", dtype="float32")


def test_failed_rows_keep_what_was_noted_before_the_forward() -> None:
    rows = RowBuilder(lambda request: Origin(MODEL))
    request = structs.replace(planned("a"), notes=("its file was there already",))
    assert rows.failed(request, ForwardError("broke")).notes == ("its file was there already",)


def test_an_output_is_of_the_device_and_the_threads_that_computed_it() -> None:
    origin = Origin(MODEL, Provenance(device="cuda:0"))
    made = origin.on(ExecutedOn("cpu", 3)).made
    assert made is not None
    assert (made.device, made.threads) == ("cpu", 3)
    assert origin.on(UNNAMED_DEVICE) == origin
    assert Origin(MODEL).on(ExecutedOn("cuda:1")).made is None


def test_rows_tell_when_each_phase_began_as_wall_time() -> None:
    before, now = time.time(), time.monotonic()
    rows = RowBuilder(lambda request: Origin(MODEL))
    times = {"forward": Interval(now + 2, now + 5), "d2h": Interval(now + 5.25, now + 6), "worker": 3}
    output = OutputMemory().output(planned("a"), **times)
    row = rows.done(planned("a"), output, [], Interval(now + 6, now + 7), Interval(now + 7, now + 8))
    starts = row.starts
    assert starts is not None
    assert starts.worker == 3
    assert starts.run == pytest.approx(before, abs=0.5)
    assert starts.forward is not None
    assert starts.forward == pytest.approx(before + 2, abs=0.5)
    phases = (starts.d2h, starts.encode, starts.write)
    assert [(phase or 0) - starts.forward for phase in phases] == pytest.approx([3.25, 4, 5], abs=1e-5)
    failed = rows.failed(planned("b"), ForwardError("broke"), output).starts
    assert failed is not None
    assert (failed.run, failed.forward, failed.encode) == (starts.run, starts.forward, None)
    for row in (rows.failed(planned("c"), ForwardError("broke")), rows.cancelled(planned("d"))):
        assert row.starts == Starts(run=starts.run)
