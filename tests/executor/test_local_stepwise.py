"""Step mode of the local executor: decisions, pauses, deaths, previews, and the thread that pumps."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.errors import EngineError, RequestCancelled, UsageError
from omni_cli.events import ForwardStep
from omni_cli.executor.local import LocalExecutor
from omni_cli.executor.protocol import PreviewImage
from omni_cli.executor.step_controller import Latents, StepController, StepEvent
from omni_cli.transport import messages as m
from tests.executor.fake_worker import LOADED, PIXELS, TIMEOUT_S, FakeWorker, Harness, error
from tests.factories import planned_call


def begin(worker: FakeWorker) -> m.ExecuteStepwise:
    call = worker.expect(m.ExecuteStepwise)
    worker.start(call)
    return call


def step(worker: FakeWorker, call: m.ExecuteStepwise, number: int, **more: object) -> None:
    worker.send(m.StepOutput(rpc_id=call.rpc_id, step=number, total=4, **more))  # type: ignore[arg-type]


def wait_for_step(controller: StepController) -> None:
    with controller.changed:
        assert controller.changed.wait_for(lambda: controller.has_step, TIMEOUT_S)


def test_every_step_is_answered_and_observed_with_its_timestep_and_sigma(harness: Harness) -> None:
    with harness.executor(step_execution=True) as (executor, worker):
        (handle,) = executor.submit(planned_call("a"))
        call = begin(worker)
        for number in (1, 2):
            step(worker, call, number, timestep=900.0, sigma=0.5)
            assert worker.expect(m.Proceed) == m.Proceed(rpc_id=call.rpc_id, step=number)
        worker.finish(call)
        assert bytes(handle.output_ready.result(TIMEOUT_S).buffer) == PIXELS
    steps = [event for event in harness.events if isinstance(event, ForwardStep)]
    assert [(event.ids, event.step, event.total, event.timestep, event.sigma) for event in steps] == [
        (("a",), 1, 4, 900.0, 0.5),
        (("a",), 2, 4, 900.0, 0.5),
    ]


def test_without_step_execution_only_calls_with_a_step_controller_are_stepwise(harness: Harness) -> None:
    with harness.executor() as (executor, worker):
        executor.submit(planned_call("plain"))
        worker.finish(worker.begin())
        executor.submit(planned_call("stepwise"), StepController(latents=True))
        call = begin(worker)
        assert call.latents
        worker.finish(call)


def test_latents_are_copied_from_the_message_or_from_a_slot_that_is_released(harness: Harness) -> None:
    with harness.executor() as (executor, worker):
        controller = StepController(paced=True, latents=True)
        executor.submit(planned_call("a"), controller)
        call = begin(worker)
        step(worker, call, 1, latents=m.StepLatents(shape=(1, 3), inline=PIXELS))
        slot = worker.pool.acquire(len(PIXELS))
        slot.memory[: len(PIXELS)] = PIXELS
        wait_for_step(controller)
        assert controller.take() == StepEvent(1, 4, latents=Latents((1, 3), PIXELS))
        controller.release()
        worker.expect(m.Proceed)
        placed = m.StepLatents(shape=(1, 3), slot=slot.ref(len(PIXELS), ()))
        worker.send(m.StepOutput(rpc_id=call.rpc_id, step=2, total=4, latents=placed), (slot.fd,))
        worker.pool.mark_shared(slot)
        assert worker.expect(m.ReleaseSlot).slot_id == slot.id
        wait_for_step(controller)
        event = controller.take()
        assert event is not None
        assert event.latents == Latents((1, 3), PIXELS)
        controller.unpace()
        worker.expect(m.Proceed)
        worker.finish(call)


def test_pause_freezes_the_forward_timeout_and_resume_restarts_it(harness: Harness) -> None:
    with harness.executor(step_execution=True, forward_timeout=5.0) as (executor, worker):
        controller = StepController()
        (handle,) = executor.submit(planned_call("a"), controller)
        call = begin(worker)
        controller.pause()
        step(worker, call, 1)
        wait_for_step(controller)
        harness.advance(15, worker)
        assert executor.next_deadline() is None
        controller.resume()
        assert worker.expect(m.Proceed).step == 1
        harness.advance(5, worker)
        replacement = harness.next()
        replacement.load()
        retry = begin(replacement)
        replacement.finish(retry)
        assert handle.output_ready.result(TIMEOUT_S).attempts == 2


def test_cancel_while_paused_reaches_the_worker_and_the_next_call_runs(harness: Harness) -> None:
    with harness.executor(step_execution=True) as (executor, worker):
        controller = StepController()
        controller.pause()
        (handle,) = executor.submit(planned_call("a"), controller)
        (next_,) = executor.submit(planned_call("b"))
        call = begin(worker)
        waiting = worker.expect(m.ExecuteStepwise)
        step(worker, call, 2)
        wait_for_step(controller)
        executor.cancel(handle)
        assert worker.expect(m.Cancel).rpc_id == call.rpc_id
        assert isinstance(handle.output_ready.exception(TIMEOUT_S), RequestCancelled)
        worker.compute(call, error("cancelled"))
        worker.finish(waiting)
        next_.output_ready.result(TIMEOUT_S)


def test_pause_outlives_the_worker_that_dies(harness: Harness) -> None:
    with harness.executor(step_execution=True) as (executor, worker):
        controller = StepController()
        controller.pause()
        (handle,) = executor.submit(planned_call("a"), controller)
        call = begin(worker)
        step(worker, call, 3)
        wait_for_step(controller)
        controller.take()
        worker.die("os._exit(7)")
        replacement = harness.next()
        replacement.load()
        retry = begin(replacement)
        step(replacement, retry, 1)
        wait_for_step(controller)
        assert replacement.has_no_message()
        controller.resume()
        assert replacement.expect(m.Proceed).rpc_id == retry.rpc_id
        replacement.finish(retry)
        assert handle.output_ready.result(TIMEOUT_S).attempts == 2


def test_shutdown_cancels_a_paused_call(harness: Harness) -> None:
    executor = LocalExecutor(EngineConfig(step_execution=True), harness.observe, command=harness.command)
    worker = harness.next()
    executor.load(ModelConfig())
    worker.load()
    controller = StepController()
    controller.pause()
    (handle,) = executor.submit(planned_call("a"), controller)
    call = begin(worker)
    step(worker, call, 1)
    wait_for_step(controller)
    with ThreadPoolExecutor(1) as threads:
        closed = threads.submit(executor.shutdown)
        assert worker.expect(m.Cancel).rpc_id == call.rpc_id
        worker.expect(m.Shutdown)
        worker.die("os._exit(0)")
        closed.result(TIMEOUT_S)
    assert isinstance(handle.output_ready.exception(TIMEOUT_S), RequestCancelled)
    controller.resume()  # has no effect any more


def test_previews_are_passed_on_while_their_request_is_unfinished(harness: Harness) -> None:
    shown: list[PreviewImage] = []
    executor = LocalExecutor(EngineConfig(preview_every=1), harness.observe, harness.command, shown.append)
    with executor:
        worker = harness.next()
        executor.load(ModelConfig())
        worker.load()
        (handle,) = executor.submit(planned_call("a"))
        call = worker.begin()
        for request_id in ("a", "unknown"):
            picture = {"width": 2, "height": 2, "pixels": PIXELS}
            worker.send(m.Preview(rpc_id=call.rpc_id, request_id=request_id, step=1, total=4, **picture))  # type: ignore[arg-type]
        worker.finish(call)
        handle.output_ready.result(TIMEOUT_S)
        worker.send(m.Preview(rpc_id=call.rpc_id, request_id="a", step=4, total=4))
        worker.die("os._exit(0)")
    assert shown == [PreviewImage("a", 1, 4, 2, 2, PIXELS)]


# ── pure step mode: the caller pumps ──


def pure(harness: Harness) -> LocalExecutor:
    return LocalExecutor(EngineConfig(step_execution=True, async_output=False), harness.observe, harness.command)


def test_pure_step_mode_has_no_pump_thread_and_submit_returns_when_the_call_is_over(harness: Harness) -> None:
    with ThreadPoolExecutor(1) as threads, pure(harness) as executor:
        worker = harness.next()
        loading = executor.load(ModelConfig())
        worker_thread = threads.submit(_run_two_steps, worker)
        executor.pump_until(loading.loaded.done)
        assert loading.loaded.result(0) == LOADED
        (handle,) = executor.submit(planned_call("a"))
        assert bytes(handle.output_ready.result(0).buffer) == PIXELS
        assert "result-pump" not in {thread.name for thread in threading.enumerate()}
        worker_thread.result(TIMEOUT_S)
        worker.die("os._exit(0)")


def _run_two_steps(worker: FakeWorker) -> None:
    worker.load()
    call = begin(worker)
    for number in (1, 2):
        step(worker, call, number)
        worker.expect(m.Proceed)
    worker.finish(call)


def test_pure_step_mode_handles_a_death_on_the_waiting_thread(harness: Harness) -> None:
    with ThreadPoolExecutor(1) as threads, pure(harness) as executor:
        worker = harness.next()
        executor.load(ModelConfig())

        def run_worker() -> None:
            worker.load()
            call = begin(worker)
            step(worker, call, 1)
            worker.expect(m.Proceed)
            worker.die("os._exit(3)")
            replacement = harness.next()
            _run_two_steps(replacement)
            replacement.die("os._exit(0)")

        worker_thread = threads.submit(run_worker)
        (handle,) = executor.submit(planned_call("a"))
        assert handle.output_ready.result(0).attempts == 2
        worker_thread.result(TIMEOUT_S)


def test_pure_step_mode_wait_ends_by_a_cancel_from_another_thread(harness: Harness) -> None:
    with ThreadPoolExecutor(2) as threads, pure(harness) as executor:
        worker = harness.next()
        executor.load(ModelConfig())
        controller = StepController(paced=True)
        (handle,) = executor.submit(planned_call("a"), controller)
        waiting = threads.submit(executor.pump_until, handle.output_ready.done)
        worker.load()
        step(worker, begin(worker), 1)
        wait_for_step(controller)
        executor.cancel(handle)
        waiting.result(TIMEOUT_S)
        assert isinstance(handle.output_ready.exception(0), RequestCancelled)
        worker.die("os._exit(0)")


def test_pure_step_mode_wait_ends_by_a_shutdown_from_another_thread(harness: Harness) -> None:
    with ThreadPoolExecutor(1) as threads:
        executor = pure(harness)
        worker = harness.next()
        executor.load(ModelConfig())
        waiting = threads.submit(executor.submit, planned_call("a"))
        worker.load()
        begin(worker)
        executor.shutdown(wait=False)
        executor.shutdown()
        (handle,) = waiting.result(TIMEOUT_S)
        assert isinstance(handle.output_ready.exception(0), EngineError)


def test_pure_step_mode_allows_one_worker_and_no_previews() -> None:
    engine = EngineConfig(step_execution=True, async_output=False, workers=2, preview_every=-1)
    with pytest.raises(UsageError) as caught:
        LocalExecutor(engine, lambda event: None)
    assert [line.partition(":")[0] for line in str(caught.value).splitlines()] == ["--preview-every -1", "--workers 2"]
