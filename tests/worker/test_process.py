"""The worker's loop, driven over its channel from the other end, in a thread of this process."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.errors import ProtocolError
from omni_cli.request import GenerationRequest, PlannedRequest
from omni_cli.transport import messages as m
from omni_cli.transport.channel import Channel
from omni_cli.transport.ring import SlotViews
from omni_cli.worker.process import serve

PATIENCE_S = 30.0
RUNNER = "tests.executor.runners:Broken"
LARGE = {"height": 700, "width": 700}

T = TypeVar("T", bound=m.Message)


class Parent:
    """What speaks to the worker; `serve` runs in a thread of its own."""

    def __init__(self, model: ModelConfig, engine: EngineConfig) -> None:
        self.channel, theirs = Channel.pair()
        self.views = SlotViews()
        self.raised: list[BaseException] = []
        self._worker = Channel(theirs)
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
        requests = tuple(
            PlannedRequest(request=GenerationRequest(id=id_, **fields), index=0, seeds=(7,), files=(), fingerprint="")
            for id_ in ids
        )
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
        """The next message, which must be of this kind; with `skip`, the next of this kind."""
        while not isinstance(message := self.receive(), kind):
            assert skip, message
        return message

    def leave(self) -> None:
        """`serve` has come to its end, or was told to; then the parent goes."""
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
    parent.next(m.Loading)
    loaded = parent.next(m.RpcResult).loaded
    assert loaded is not None
    assert (loaded.info.pipeline, loaded.info.dtype, loaded.device) == ("Null", "float32", "cpu")
    yield parent
    parent.send(m.Shutdown())
    parent.leave()
    assert parent.raised == []


def test_a_call_is_answered_in_order(parent: Parent) -> None:
    rpc_id = parent.call("a", "b", height=4, width=4, num_inference_steps=1)
    assert parent.next(m.Started) == m.Started(rpc_id=rpc_id, request_ids=("a", "b"))
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
        assert (output.async_output_id, output.inline) == (output_id, b"\x07" * 48)
        assert output.d2h.start >= done.forward.start


@pytest.mark.parametrize("parent", [{"async_output": False}], indirect=True)
def test_without_async_output_everything_is_sent_before_the_next_forward(parent: Parent) -> None:
    for id_ in "ab":
        parent.call(id_, "c", **LARGE)
    kinds = [type(parent.receive()).__name__ for _ in range(10)]
    assert kinds == ["Started", "Step", "ComputeDone", "OutputReady", "OutputReady"] * 2
    assert all(thread.name != "output" for thread in threading.enumerate())


def test_outputs_wait_for_slots_and_go_on_as_these_come_back() -> None:
    tight = Parent(ModelConfig(device="cpu"), EngineConfig(runner=RUNNER, max_inflight_bytes=12_000_000))
    for id_ in "abcdefghij":
        tight.call(id_, **LARGE)
    slots = []
    while len(slots) < 8:  # as many as the ring has room for
        message = tight.receive()
        if isinstance(message, m.OutputReady):
            assert message.slot is not None
            slots.append(message.slot.slot_id)
    for _ in range(2):
        tight.send(m.ReleaseSlot(slot_id=slots.pop()))
        assert tight.next(m.OutputReady, skip=True).slot is not None
    tight.send(m.Shutdown())
    tight.leave()


def test_what_a_pipeline_raises_fails_the_call_and_the_next_goes_on(parent: Parent) -> None:
    parent.call("a", prompt="raise")
    parent.next(m.Started)
    done = parent.next(m.ComputeDone)
    assert done.error is not None
    assert (done.error.kind, done.error.message, done.async_output_ids) == ("forward_failed", "ValueError: no", ())
    assert "in execute_model" in done.error.traceback
    parent.call("b", height=4, width=4)
    assert parent.next(m.OutputReady, skip=True).error is None


def test_a_call_cancelled_in_the_inbox_is_answered_and_never_begun(parent: Parent) -> None:
    running = parent.call("a", num_inference_steps=1000, extra={"seconds": 30.0})
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


def test_the_worker_tells_how_it_is(parent: Parent) -> None:
    parent.call("a", **LARGE)
    parent.next(m.OutputReady, skip=True)
    assert parent.ask("drain").drained is True
    health = parent.ask("health").health
    assert health is not None
    assert (health.inflight, health.slots) == (0, 1)
    assert health.slot_bytes >= 700 * 700 * 3


def test_sleep_drains_first_and_the_model_works_after_it_has_woken(parent: Parent) -> None:
    parent.call("a", **LARGE)
    parent.send(m.Rpc(rpc_id=1000, method="sleep"))
    assert parent.next(m.OutputReady, skip=True).slot is not None
    assert parent.next(m.RpcResult) == m.RpcResult(rpc_id=1000, drained=True)
    assert parent.ask("wake_up").error is None
    assert parent.ask("synchronize").error is None
    parent.call("b", height=4, width=4)
    assert parent.next(m.OutputReady, skip=True).inline is not None


STUCK = {"max_inflight_bytes": 1_500_000, "drain_timeout": 0.05}
"""Room for one large output: the second waits for its slot."""


@pytest.mark.parametrize("parent", [STUCK], indirect=True)
def test_memory_is_not_released_while_an_output_is_still_on_the_device(parent: Parent) -> None:
    parent.call("a", "b", **LARGE)
    held = parent.next(m.OutputReady, skip=True)
    assert held.slot is not None
    refused = parent.ask("sleep")
    assert refused.drained is False
    assert refused.error is not None
    assert refused.error.message == "the outputs did not drain within 0.05 s; nothing was released"
    parent.load(ModelConfig(device="cpu"))
    refused = parent.next(m.RpcResult)
    assert refused.error is not None
    assert refused.error.message == "the outputs did not drain within 0.05 s; the model before was not released"
    parent.send(m.ReleaseSlot(slot_id=held.slot.slot_id))
    assert parent.next(m.OutputReady).error is None
    assert parent.ask("sleep").drained is True


@pytest.mark.parametrize("parent", [STUCK], indirect=True)
def test_a_worker_that_leaves_with_an_output_that_does_not_drain_says_so_and_releases_nothing(
    parent: Parent, capfd: pytest.CaptureFixture[str]
) -> None:
    parent.call("a", "b", **LARGE)
    held = parent.next(m.OutputReady, skip=True)
    assert held.slot is not None
    parent.send(m.Shutdown())
    parent._thread.join(PATIENCE_S)
    assert "the outputs did not drain within 0.05 s; 1 outputs are lost" in capfd.readouterr().err
    parent.send(m.ReleaseSlot(slot_id=held.slot.slot_id))  # the thread of this test's process comes to its end
    assert parent.next(m.OutputReady).error is None


def test_what_an_rpc_raises_is_its_answer(parent: Parent) -> None:
    parent.load(ModelConfig(device="cpu", model="nowhere"))
    answer = parent.next(m.RpcResult)
    assert answer.error is not None
    assert answer.error.message == "OSError: nowhere is not there"
    assert "in load" in answer.error.traceback


def test_a_device_that_is_not_there_is_a_setting_that_cannot_be_used() -> None:
    parent = Parent(ModelConfig(device="cpu:9"), EngineConfig(runner=RUNNER))
    answer = parent.next(m.RpcResult)
    assert answer.error is not None
    assert answer.error.kind == m.USAGE_KIND
    assert answer.error.message.startswith("--device cpu:9: no such device here; there are: ")
    parent.leave()
    assert parent.raised == []


def test_an_interpolator_that_cannot_be_loaded_is_the_answer_to_loading(tmp_path: Path) -> None:
    (tmp_path / "x.pt").write_bytes(b"no module")
    parent = Parent(ModelConfig(device="cpu"), EngineConfig(runner=RUNNER, interpolator=str(tmp_path / "x.pt")))
    result = parent.next(m.RpcResult, skip=True)
    assert result.error is not None
    assert "x.pt' is no TorchScript file that can be loaded" in result.error.message
    parent.send(m.Shutdown())
    parent.leave()


def test_the_first_message_must_be_the_model() -> None:
    channel, theirs = Channel.pair()
    worker = Channel(theirs)
    channel.send(m.encode(m.Shutdown()))
    with pytest.raises(ProtocolError, match="must be LoadModel or Identify, not Shutdown"):
        serve(worker)
    channel.close()
    assert serve(worker) is None, "a parent that is gone before it said anything"
    worker.close()


@pytest.mark.parametrize("parent", [{"runner": "tests.executor.runners:Expecting"}], indirect=True)
def test_the_runner_hears_of_a_call_when_it_arrives_and_when_it_is_over(parent: Parent) -> None:
    parent.call("a", height=4, width=4)
    parent.next(m.Started)
    cancelled = parent.call("c", height=4, width=4)
    parent.send(m.Cancel(rpc_id=cancelled))
    parent.call("b", height=4, width=4)
    errors = [parent.next(m.ComputeDone, skip=True).error for _ in range(3)]
    assert [error and error.kind for error in errors] == [None, "cancelled", None]
    parent.call("d", prompt="told")
    told = parent.next(m.ComputeDone, skip=True).error
    assert told is not None
    assert told.message == "ValueError: a c b"
