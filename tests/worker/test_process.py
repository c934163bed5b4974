"""The worker's loop, run in a thread of this process and driven over its channel."""

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.errors import ProtocolError
from omni_cli.request import PlannedRequest
from omni_cli.transport import messages as m
from omni_cli.transport.channel import Channel
from omni_cli.transport.ring import SlotViews
from omni_cli.worker.null import NullRunner
from omni_cli.worker.process import serve
from omni_cli.worker.runner_protocol import IsCancelled, OnStep
from tests.factories import planned_call

PATIENCE_S = 30.0
RUNNER = "tests.executor.runners:FaultyRunner"
LARGE = {"height": 700, "width": 700}

T = TypeVar("T", bound=m.Message)


class Parent:
    """The parent's end of a worker, whose `serve` runs in a thread."""

    def __init__(self, model: ModelConfig, engine: EngineConfig) -> None:
        self.channel, worker_end = Channel.pair()
        self.views = SlotViews()
        self.raised: list[BaseException] = []
        self._worker = Channel(worker_end)
        self._engine = engine
        self._thread = threading.Thread(target=self._serve, name="serve")
        self._thread.start()
        self._rpc_ids = 0
        self.load(model)

    def load(self, model: ModelConfig) -> None:
        self.send(m.LoadModel(rpc_id=self.new_id(), model=model, engine=self._engine))

    def new_id(self) -> int:
        self._rpc_ids += 1
        return self._rpc_ids

    def send(self, message: m.ToWorker) -> None:
        self.channel.send(m.encode(message))

    def call(self, *ids: str, **fields: Any) -> int:
        requests = tuple(planned_call(*ids, **fields))
        rpc_id = self.new_id()
        self.send(m.ExecuteModel(rpc_id=rpc_id, batch_id=f"batch-{rpc_id}", requests=requests))
        return rpc_id

    def ask(self, method: Any) -> m.RpcResult:
        rpc_id = self.new_id()
        self.send(m.Rpc(rpc_id=rpc_id, method=method))
        while (result := self.next(m.RpcResult, skip=True)).rpc_id != rpc_id:
            pass
        return result

    def receive(self) -> m.FromWorker:
        received = self.channel.receive()
        assert received is not None
        message = m.decode_from_worker(received[0])
        holder = message.latents if isinstance(message, m.StepOutput) else message
        if isinstance(holder, m.OutputReady | m.StepLatents) and holder.slot is not None:
            self.views.view(holder.slot, received[1])
        return message

    def next(self, kind: type[T], *, skip: bool = False) -> T:
        """Return the next message, which must be of type `kind`; with `skip`, skip messages of other types."""
        while not isinstance(message := self.receive(), kind):
            assert skip, message
        return message

    def leave(self) -> None:
        """Wait for `serve` to return, then close the parent's end."""
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        self.channel.close()
        for thread in threading.enumerate():
            if thread.name == "inbox":
                thread.join(PATIENCE_S)
        self._worker.close()
        self.views.close()

    def _serve(self) -> None:
        try:
            serve(self._worker, lambda: None)
        except BaseException as error:
            self.raised.append(error)


@pytest.fixture
def parent(request: pytest.FixtureRequest) -> Iterator[Parent]:
    engine = {"runner": RUNNER, **getattr(request, "param", {})}
    parent = Parent(ModelConfig(device="cpu"), EngineConfig(**engine))
    parent.next(m.LoadProgress)
    loaded = parent.next(m.RpcResult).loaded
    assert loaded is not None
    assert (loaded.info.pipeline, loaded.info.dtype, loaded.device) == ("Null", "float32", "cpu")
    yield parent
    parent.send(m.Shutdown())
    parent.leave()
    assert parent.raised == []


def test_the_messages_of_a_call_come_in_order(parent: Parent) -> None:
    parent.send(m.SetThreads(threads=3))
    rpc_id = parent.call("a", "b", height=4, width=4, num_inference_steps=1)
    assert parent.next(m.Started) == m.Started(rpc_id=rpc_id, request_ids=("a", "b"), threads=3)
    assert parent.next(m.Step) == m.Step(rpc_id=rpc_id, step=1, total=1)
    done = parent.next(m.ComputeDone)
    assert (done.rpc_id, done.async_output_ids, done.error) == (
        rpc_id,
        (f"batch-{rpc_id}/a", f"batch-{rpc_id}/b"),
        None,
    )
    assert done.forward.end >= done.forward.start
    for output_id in done.async_output_ids:
        output = parent.next(m.OutputReady)
        assert (output.async_output_id, output.inline) == (output_id, b"\x05" * 48)
        assert output.d2h.start >= done.forward.start


@pytest.mark.parametrize("parent", [{"async_output": False}], indirect=True)
def test_without_async_output_all_outputs_are_sent_before_the_next_forward_pass(parent: Parent) -> None:
    for id_ in "ab":
        parent.call(id_, "c", **LARGE)
    kinds = [type(parent.receive()).__name__ for _ in range(10)]
    assert kinds == ["Started", "Step", "ComputeDone", "OutputReady", "OutputReady"] * 2
    assert all(thread.name != "output" for thread in threading.enumerate())


def test_outputs_wait_for_released_slots() -> None:
    parent = Parent(ModelConfig(device="cpu"), EngineConfig(runner=RUNNER, max_inflight_bytes=12_000_000))
    for id_ in "abcdefghij":
        parent.call(id_, **LARGE)
    slots = []
    while len(slots) < 8:  # as many as the ring has room for
        message = parent.receive()
        if isinstance(message, m.OutputReady):
            assert message.slot is not None
            slots.append(message.slot.slot_id)
    for _ in range(2):
        parent.send(m.ReleaseSlot(slot_id=slots.pop()))
        assert parent.next(m.OutputReady, skip=True).slot is not None
    parent.send(m.Shutdown())
    parent.leave()


def test_an_exception_of_the_pipeline_fails_its_call_and_the_next_succeeds(parent: Parent) -> None:
    parent.call("a", prompt="raise")
    parent.next(m.Started)
    done = parent.next(m.ComputeDone)
    assert done.error is not None
    assert (done.error.kind, done.error.message, done.async_output_ids) == ("forward_failed", "ValueError: no", ())
    assert "in execute_model" in done.error.traceback
    parent.call("b", height=4, width=4)
    assert parent.next(m.OutputReady, skip=True).error is None


def test_a_call_that_is_cancelled_while_queued_is_answered_and_never_starts(parent: Parent) -> None:
    running = parent.call("a", num_inference_steps=1000, extra={"forward_seconds": 30.0})
    parent.next(m.Started)
    waiting = parent.call("b")
    parent.send(m.Cancel(rpc_id=waiting))
    parent.send(m.Cancel(rpc_id=running))
    done = parent.next(m.ComputeDone, skip=True)
    assert done.error is not None
    assert (done.rpc_id, done.error.kind) == (running, "cancelled")
    done = parent.next(m.ComputeDone)
    assert done.error is not None
    assert (done.rpc_id, done.error.kind) == (waiting, "cancelled")


def test_health_reports_outputs_and_slots(parent: Parent) -> None:
    parent.call("a", **LARGE)
    parent.next(m.OutputReady, skip=True)
    assert parent.ask("drain").drained is True
    health = parent.ask("health").health
    assert health is not None
    assert (health.inflight, health.slots) == (0, 1)
    assert health.slot_bytes >= 700 * 700 * 3


def test_sleep_drains_the_outputs_and_the_model_works_after_wake_up(parent: Parent) -> None:
    parent.call("a", **LARGE)
    parent.send(m.Rpc(rpc_id=1000, method="sleep"))
    assert parent.next(m.OutputReady, skip=True).slot is not None
    assert parent.next(m.RpcResult) == m.RpcResult(rpc_id=1000, drained=True)
    assert parent.ask("wake_up").error is None
    assert parent.ask("synchronize").error is None
    parent.call("b", height=4, width=4)
    assert parent.next(m.OutputReady, skip=True).inline is not None


ONE_SLOT = {"max_inflight_bytes": 1_500_000, "drain_timeout": 0.05}
"""Settings with room for one large output, so that the second waits for a slot."""


@pytest.mark.parametrize("parent", [ONE_SLOT], indirect=True)
def test_memory_is_not_released_while_an_output_is_on_the_device(parent: Parent) -> None:
    parent.call("a", "b", **LARGE)
    waiting_output = parent.next(m.OutputReady, skip=True)
    assert waiting_output.slot is not None
    rejected = parent.ask("sleep")
    assert rejected.drained is False
    assert rejected.error is not None
    assert rejected.error.message == "the outputs did not drain within 0.05 s; nothing was released"
    parent.load(ModelConfig(device="cpu"))
    rejected = parent.next(m.RpcResult)
    assert rejected.error is not None
    assert rejected.error.message == "the outputs did not drain within 0.05 s; the model before was not released"
    parent.send(m.ReleaseSlot(slot_id=waiting_output.slot.slot_id))
    assert parent.next(m.OutputReady).error is None
    assert parent.ask("sleep").drained is True


@pytest.mark.parametrize("parent", [ONE_SLOT], indirect=True)
def test_a_shutdown_with_outputs_that_do_not_drain_reports_their_loss(
    parent: Parent, capfd: pytest.CaptureFixture[str]
) -> None:
    parent.call("a", "b", **LARGE)
    waiting_output = parent.next(m.OutputReady, skip=True)
    assert waiting_output.slot is not None
    parent.send(m.Shutdown())
    parent._thread.join(PATIENCE_S)
    assert "the outputs did not drain within 0.05 s; 1 outputs are lost" in capfd.readouterr().err
    parent.send(m.ReleaseSlot(slot_id=waiting_output.slot.slot_id))  # lets the output thread end
    assert parent.next(m.OutputReady).error is None


class Scarce(NullRunner):
    """A runner whose second batch lacks memory until the output of the first is sent."""

    drained: list[bool] = []  # noqa: RUF012 - shared with the test

    def drain_by(self, drain: Callable[[], bool]) -> None:
        self._drain = drain

    def free_memory(self) -> str | None:
        return None

    def execute_model(self, requests: Sequence[PlannedRequest], on_step: OnStep, is_cancelled: IsCancelled) -> Any:
        self.drained.append(self._drain())
        return super().execute_model(requests, on_step, is_cancelled)


def test_a_runner_that_lacks_memory_waits_for_the_outputs_before() -> None:
    runner = f"{__name__}:Scarce"
    parent = Parent(ModelConfig(device="cpu"), EngineConfig(runner=runner, max_inflight_bytes=1_500_000))
    parent.call("a", "b", **LARGE)
    waiting = parent.next(m.OutputReady, skip=True)  # "b" waits for its slot
    assert waiting.slot is not None
    parent.call("c", height=4, width=4)
    parent.next(m.Started)
    parent.send(m.ReleaseSlot(slot_id=waiting.slot.slot_id))
    assert parent.next(m.OutputReady).async_output_id.endswith("/b"), "sent before the forward of c was over"
    parent.next(m.ComputeDone, skip=True)
    assert Scarce.drained == [False, True]
    parent.send(m.Shutdown())
    parent.leave()


def test_an_exception_of_an_rpc_is_sent_as_its_result(parent: Parent) -> None:
    parent.load(ModelConfig(device="cpu", model="nowhere"))
    answer = parent.next(m.RpcResult)
    assert answer.error is not None
    assert answer.error.message == "OSError: nowhere is not there"
    assert "in load" in answer.error.traceback


def test_a_device_that_does_not_exist_is_a_usage_error() -> None:
    parent = Parent(ModelConfig(device="cpu:9"), EngineConfig(runner=RUNNER))
    answer = parent.next(m.RpcResult)
    assert answer.error is not None
    assert answer.error.kind == m.USAGE_KIND
    assert answer.error.message.startswith("--device cpu:9: no such device here; there are: ")
    parent.leave()
    assert parent.raised == []


def test_an_interpolator_that_cannot_be_loaded_fails_the_load(tmp_path: Path) -> None:
    (tmp_path / "x.pt").write_bytes(b"no module")
    parent = Parent(ModelConfig(device="cpu"), EngineConfig(runner=RUNNER, interpolator=str(tmp_path / "x.pt")))
    result = parent.next(m.RpcResult, skip=True)
    assert result.error is not None
    assert "x.pt' cannot be loaded as a TorchScript file" in result.error.message
    parent.send(m.Shutdown())
    parent.leave()


def test_the_first_message_must_be_load_model_or_identify() -> None:
    channel, worker_end = Channel.pair()
    worker = Channel(worker_end)
    channel.send(m.encode(m.Shutdown()))
    with pytest.raises(ProtocolError, match="must be LoadModel or Identify, not Shutdown"):
        serve(worker)
    channel.close()
    assert serve(worker) is None, "returns if the parent closes the channel before the first message"
    worker.close()


@pytest.mark.parametrize("parent", [{"runner": "tests.executor.runners:PrefetchRunner"}], indirect=True)
def test_inputs_are_prefetched_on_arrival_and_discarded_after_each_call(parent: Parent) -> None:
    parent.call("a", height=4, width=4)
    parent.next(m.Started)
    cancelled = parent.call("c", height=4, width=4)
    parent.send(m.Cancel(rpc_id=cancelled))
    parent.call("b", height=4, width=4)
    errors = [parent.next(m.ComputeDone, skip=True).error for _ in range(3)]
    assert [error and error.kind for error in errors] == [None, "cancelled", None]
    parent.call("d", prompt="discarded")
    error = parent.next(m.ComputeDone, skip=True).error
    assert error is not None
    assert error.message == "ValueError: a c b"


def test_the_number_of_threads_is_set_between_calls(parent: Parent) -> None:
    for threads in (3, 2):
        parent.send(m.SetThreads(threads=threads))
        parent.call("a", prompt="threads")
        error = parent.next(m.ComputeDone, skip=True).error
        assert error is not None
        assert error.message == f"ValueError: {threads} threads"
