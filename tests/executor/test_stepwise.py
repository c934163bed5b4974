"""Step mode against a worker that says what the test says: decisions, pauses, deaths, and who listens."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.errors import EngineError, RequestCancelled, UsageError
from omni_cli.events import ForwardStep
from omni_cli.executor.local import LocalExecutor
from omni_cli.executor.protocol import Preview
from omni_cli.executor.steering import Latents, Steering, Step
from omni_cli.transport import messages as m
from tests.executor.puppet import FORWARD, LOADED, PATIENCE_S, PIXELS, Puppet, Stage, error, planned


def begin(worker: Puppet) -> m.ExecuteStepwise:
    call = worker.expect(m.ExecuteStepwise)
    worker.send(m.Started(rpc_id=call.rpc_id, request_ids=tuple(request.id for request in call.requests)))
    return call


def step(worker: Puppet, call: m.ExecuteStepwise, number: int, **more: object) -> None:
    worker.send(m.StepOutput(rpc_id=call.rpc_id, step=number, total=4, **more))  # type: ignore[arg-type]


def wait_for_step(steering: Steering) -> None:
    with steering.changed:
        assert steering.changed.wait_for(lambda: steering.has_step, PATIENCE_S)


def finish(worker: Puppet, call: m.ExecuteStepwise) -> None:
    worker.finish(m.ExecuteModel(rpc_id=call.rpc_id, batch_id=call.batch_id, requests=call.requests))


def test_every_step_is_answered_and_told_with_its_timestep_and_noise_level(stage: Stage) -> None:
    with stage.executor(step_execution=True) as (executor, worker):
        (handle,) = executor.submit(planned("a"))
        call = begin(worker)
        for number in (1, 2):
            step(worker, call, number, timestep=900.0, sigma=0.5)
            assert worker.expect(m.Proceed) == m.Proceed(rpc_id=call.rpc_id, step=number)
        finish(worker, call)
        assert bytes(handle.output_ready.result(PATIENCE_S).buffer) == PIXELS
    told = [event for event in stage.events if isinstance(event, ForwardStep)]
    assert [(event.ids, event.step, event.total, event.timestep, event.sigma) for event in told] == [
        (("a",), 1, 4, 900.0, 0.5),
        (("a",), 2, 4, 900.0, 0.5),
    ]


def test_without_step_execution_only_a_call_that_is_steered_goes_step_by_step(stage: Stage) -> None:
    with stage.executor() as (executor, worker):
        executor.submit(planned("plain"))
        worker.finish(worker.begin())
        executor.submit(planned("steered"), Steering(latents=True))
        call = begin(worker)
        assert call.latents
        finish(worker, call)


def test_latents_come_inline_or_in_a_slot_that_goes_back_at_once(stage: Stage) -> None:
    with stage.executor() as (executor, worker):
        steering = Steering(paced=True, latents=True)
        executor.submit(planned("a"), steering)
        call = begin(worker)
        step(worker, call, 1, latents=m.StepLatents(shape=(1, 3), inline=PIXELS))
        slot = worker.pool.acquire(len(PIXELS))
        slot.memory[: len(PIXELS)] = PIXELS
        wait_for_step(steering)
        assert steering.take() == Step(1, 4, latents=Latents((1, 3), PIXELS))
        steering.go_on()
        worker.expect(m.Proceed)
        placed = m.StepLatents(shape=(1, 3), slot=slot.ref(len(PIXELS), ()))
        worker.send(m.StepOutput(rpc_id=call.rpc_id, step=2, total=4, latents=placed), (slot.fd,))
        worker.pool.shared(slot)
        assert worker.expect(m.ReleaseSlot).slot_id == slot.id
        wait_for_step(steering)
        taken = steering.take()
        assert taken is not None
        assert taken.latents == Latents((1, 3), PIXELS)
        steering.free()
        worker.expect(m.Proceed)
        finish(worker, call)


def test_a_pause_stops_the_clock_of_the_forward_and_its_end_starts_it_again(stage: Stage) -> None:
    with stage.executor(step_execution=True, forward_timeout=0.3) as (executor, worker):
        steering = Steering()
        (handle,) = executor.submit(planned("a"), steering)
        call = begin(worker)
        steering.pause()
        step(worker, call, 1)
        wait_for_step(steering)
        with pytest.raises(TimeoutError):
            handle.output_ready.result(1.0)  # three times what a forward may take
        assert executor._calls.books.next_deadline() is None
        steering.resume()
        assert worker.expect(m.Proceed).step == 1
        heir = stage.next()  # and now the forward takes too long
        heir.load()
        again = begin(heir)
        finish(heir, again)
        assert handle.output_ready.result(PATIENCE_S).attempts == 2


def test_a_cancel_while_paused_reaches_the_worker_and_the_next_call_goes_on(stage: Stage) -> None:
    with stage.executor(step_execution=True) as (executor, worker):
        steering = Steering()
        steering.pause()
        (handle,) = executor.submit(planned("a"), steering)
        (next_,) = executor.submit(planned("b"))
        call = begin(worker)
        waiting = worker.expect(m.ExecuteStepwise)
        step(worker, call, 2)
        wait_for_step(steering)
        executor.cancel(handle)
        assert worker.expect(m.Cancel).rpc_id == call.rpc_id
        assert isinstance(handle.output_ready.exception(PATIENCE_S), RequestCancelled)
        worker.send(
            m.ComputeDone(
                rpc_id=call.rpc_id,
                async_output_ids=(),
                forward=FORWARD,
                error=error("cancelled"),
            )
        )
        finish(worker, waiting)
        next_.output_ready.result(PATIENCE_S)


def test_a_worker_that_dies_while_paused_is_replaced_and_the_pause_goes_on(stage: Stage) -> None:
    with stage.executor(step_execution=True) as (executor, worker):
        steering = Steering()
        steering.pause()
        (handle,) = executor.submit(planned("a"), steering)
        call = begin(worker)
        step(worker, call, 3)
        wait_for_step(steering)
        steering.take()
        worker.die("os._exit(7)")
        heir = stage.next()
        heir.load()
        again = begin(heir)
        step(heir, again, 1)
        wait_for_step(steering)
        assert heir.hears_nothing()
        steering.resume()
        assert heir.expect(m.Proceed).rpc_id == again.rpc_id
        finish(heir, again)
        assert handle.output_ready.result(PATIENCE_S).attempts == 2


def test_a_call_that_is_paused_when_the_executor_is_closed_is_given_up(stage: Stage) -> None:
    executor = LocalExecutor(EngineConfig(step_execution=True), stage.observe, command=stage.command)
    worker = stage.next()
    executor.load(ModelConfig())
    worker.load()
    steering = Steering()
    steering.pause()
    (handle,) = executor.submit(planned("a"), steering)
    call = begin(worker)
    step(worker, call, 1)
    wait_for_step(steering)
    with ThreadPoolExecutor(1) as threads:
        closed = threads.submit(executor.close)
        assert worker.expect(m.Cancel).rpc_id == call.rpc_id
        worker.expect(m.Shutdown)
        worker.die("os._exit(0)")
        closed.result(PATIENCE_S)
    assert isinstance(handle.output_ready.exception(PATIENCE_S), RequestCancelled)
    steering.resume()  # too late, and no harm


def test_previews_are_passed_on_while_their_request_is_wanted(stage: Stage) -> None:
    shown: list[Preview] = []
    executor = LocalExecutor(EngineConfig(preview_every=1), stage.observe, stage.command, shown.append)
    with executor:
        worker = stage.next()
        executor.load(ModelConfig())
        worker.load()
        (handle,) = executor.submit(planned("a"))
        call = worker.begin()
        for request_id in ("a", "stranger"):
            picture = {"width": 2, "height": 2, "pixels": PIXELS}
            worker.send(m.Preview(rpc_id=call.rpc_id, request_id=request_id, step=1, total=4, **picture))  # type: ignore[arg-type]
        worker.finish(call)
        handle.output_ready.result(PATIENCE_S)
        worker.send(m.Preview(rpc_id=call.rpc_id, request_id="a", step=4, total=4))
        worker.die("os._exit(0)")
    assert shown == [Preview("a", 1, 4, 2, 2, PIXELS)]


# ── pure step mode: nobody listens but the caller ──


def pure(stage: Stage) -> LocalExecutor:
    return LocalExecutor(EngineConfig(step_execution=True, async_output=False), stage.observe, stage.command)


def test_in_pure_step_mode_there_is_no_pump_and_submit_returns_when_the_call_is_over(stage: Stage) -> None:
    with ThreadPoolExecutor(1) as threads, pure(stage) as executor:
        worker = stage.next()
        loading = executor.load(ModelConfig())
        playing = threads.submit(_play, worker)
        executor.drive(loading.loaded.done)
        assert loading.loaded.result(0) == LOADED
        (handle,) = executor.submit(planned("a"))
        assert bytes(handle.output_ready.result(0).buffer) == PIXELS
        assert "result-pump" not in {thread.name for thread in threading.enumerate()}
        playing.result(PATIENCE_S)
        worker.die("os._exit(0)")


def _play(worker: Puppet) -> None:
    worker.load()
    call = begin(worker)
    for number in (1, 2):
        step(worker, call, number)
        worker.expect(m.Proceed)
    finish(worker, call)


def test_in_pure_step_mode_a_death_is_seen_by_the_one_who_waits(stage: Stage) -> None:
    with ThreadPoolExecutor(1) as threads, pure(stage) as executor:
        worker = stage.next()
        executor.load(ModelConfig())

        def play() -> None:
            worker.load()
            call = begin(worker)
            step(worker, call, 1)
            worker.expect(m.Proceed)
            worker.die("os._exit(3)")
            heir = stage.next()
            _play(heir)
            heir.die("os._exit(0)")

        playing = threads.submit(play)
        (handle,) = executor.submit(planned("a"))
        assert handle.output_ready.result(0).attempts == 2
        playing.result(PATIENCE_S)


def test_in_pure_step_mode_a_cancel_from_another_thread_ends_the_wait(stage: Stage) -> None:
    with ThreadPoolExecutor(2) as threads, pure(stage) as executor:
        worker = stage.next()
        executor.load(ModelConfig())
        steering = Steering(paced=True)
        (handle,) = executor.submit(planned("a"), steering)
        waiting = threads.submit(executor.drive, handle.output_ready.done)
        worker.load()
        step(worker, begin(worker), 1)
        wait_for_step(steering)
        executor.cancel(handle)
        waiting.result(PATIENCE_S)
        assert isinstance(handle.output_ready.exception(0), RequestCancelled)
        worker.die("os._exit(0)")


def test_in_pure_step_mode_closing_ends_a_wait_of_another_thread(stage: Stage) -> None:
    with ThreadPoolExecutor(1) as threads:
        executor = pure(stage)
        worker = stage.next()
        executor.load(ModelConfig())
        waiting = threads.submit(executor.submit, planned("a"))
        worker.load()
        begin(worker)
        executor.kill()
        (handle,) = waiting.result(PATIENCE_S)
        assert isinstance(handle.output_ready.exception(0), EngineError)


def test_pure_step_mode_has_one_worker() -> None:
    engine = EngineConfig(step_execution=True, async_output=False, workers=2, preview_every=-1)
    with pytest.raises(UsageError) as caught:
        LocalExecutor(engine, lambda event: None)
    assert [line.partition(":")[0] for line in str(caught.value).splitlines()] == ["--preview-every -1", "--workers 2"]
