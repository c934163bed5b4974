"""The whole of it, with worker processes that are real: pixels, deaths, restarts, and a parent that is shot."""

import os
import select
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.errors import EngineError, NonFiniteOutput, UsageError, WorkerDied
from omni_cli.executor import make_executor
from omni_cli.executor.faults import PoisonousRequest
from omni_cli.executor.local import LocalExecutor
from omni_cli.executor.protocol import Executor, Handle
from omni_cli.request import GenerationRequest, PlannedRequest
from omni_cli.transport.messages import Health
from tests.executor.conftest import held

PATIENCE_S = 60.0
RUNNER = "tests.executor.runners:Broken"
MODEL = ModelConfig(device="cpu")


def planned(id_: str, seeds: tuple[int, ...] = (7,), **fields: Any) -> PlannedRequest:
    request = GenerationRequest(id=id_, num_outputs=len(seeds), **{"height": 4, "width": 4, **fields})
    return PlannedRequest(request=request, index=0, seeds=seeds, files=(), fingerprint="")


def outputs(handles: Sequence[Handle]) -> list[tuple[tuple[int, ...], bytes]]:
    """Shape and bytes of each; their memory is given back."""
    found = []
    for handle in handles:
        output = handle.output_ready.result(PATIENCE_S)
        found.append((output.header.shape, bytes(output.buffer)))
        output.release()
    return found


@pytest.fixture(scope="module")
def executor() -> Iterator[LocalExecutor]:
    """One worker for the tests that do it no harm."""
    with LocalExecutor(EngineConfig(runner=RUNNER), lambda event: None) as executor:
        executor.load(MODEL).loaded.result(PATIENCE_S)
        yield executor


@pytest.fixture(autouse=True)
def _nothing_is_left_behind(executor: LocalExecutor) -> Iterator[None]:
    """No thread, no child. Not counted are descriptors: the shared executor keeps the slots that a test has made it map."""
    before = held()[1:]
    yield
    assert held()[1:] == before


MIXED = [
    [planned("picture", (1, 2))],
    [planned("large", (3,), height=700, width=700)],
    [
        planned("clip", (4, 5), height=300, width=300, num_frames=5),
        planned("clip2", (6,), height=30, width=20, num_frames=3),
    ],
]


def test_the_same_bytes_come_from_a_worker_and_from_this_process(executor: LocalExecutor) -> None:
    by_worker = [outputs(executor.submit(call)) for call in MIXED * 2]
    with make_executor(EngineConfig(executor="inline", runner=RUNNER), lambda event: None) as inline:
        inline.load(MODEL)
        in_process = [outputs(inline.submit(call)) for call in MIXED * 2]
    assert by_worker == in_process
    assert by_worker[0] == [((2, 1, 4, 4, 3), b"\x01" * 48 + b"\x02" * 48)]


def test_many_small_ones_through_a_ring_are_all_different_and_the_slots_are_used_again(executor: LocalExecutor) -> None:
    handles = [executor.submit([planned(str(n), (n,), height=600, width=600)])[0] for n in range(20)]
    assert [data[:1] for _, data in outputs(handles)] == [bytes([n]) for n in range(20)]
    assert executor.collective_rpc("drain") == [True]
    (health,) = executor.collective_rpc("health")
    assert isinstance(health, Health)
    assert health.inflight == 0
    assert health.slots < 20


def test_sleep_waits_for_outputs_in_flight_and_is_refused_where_one_does_not_leave() -> None:
    engine = EngineConfig(runner=RUNNER, max_inflight_bytes=1_500_000, drain_timeout=0.05)
    with LocalExecutor(engine, lambda event: None) as executor:
        executor.load(MODEL).loaded.result(PATIENCE_S)
        call = [planned(id_, height=700, width=700) for id_ in "ab"]
        first, second = executor.submit(call)
        held_up = first.output_ready.result(PATIENCE_S)  # its slot is all the ring has
        refusal = "sleep failed: the outputs did not drain within 0.05 s; nothing was released"
        with pytest.raises(EngineError, match=refusal):
            executor.collective_rpc("sleep")
        assert executor.collective_rpc("drain") == [False]
        held_up.release()
        outputs([second])
        assert executor.collective_rpc("sleep") == [True]
        assert executor.collective_rpc("wake_up") == [None]


def test_nan_in_a_batch_fails_alone(executor: LocalExecutor) -> None:
    good, bad = executor.submit([planned("good"), planned("bad", prompt="nan")])
    assert isinstance(bad.output_ready.exception(PATIENCE_S), NonFiniteOutput)
    assert outputs([good]) == [((1, 1, 4, 4, 3), b"\x07" * 48)]


def test_a_long_forward_is_cancelled_between_its_steps(executor: LocalExecutor) -> None:
    (long,) = executor.submit([planned("long", num_inference_steps=10_000, extra={"seconds": 600.0})])
    (next_,) = executor.submit([planned("next")])
    executor.cancel(long)
    assert long.output_ready.exception(PATIENCE_S) is not None
    assert len(outputs([next_])) == 1


def test_a_poisonous_request_costs_two_workers_and_itself() -> None:
    with LocalExecutor(EngineConfig(runner=RUNNER, async_output=False), lambda event: None) as executor:
        executor.load(MODEL)
        (poison,) = executor.submit([planned("poison", prompt="kill")])
        (good,) = executor.submit([planned("good")])
        assert outputs([good]) == [((1, 1, 4, 4, 3), b"\x07" * 48)]
        raised = poison.output_ready.exception(0)
        assert isinstance(raised, PoisonousRequest)
        for part in ("given up after 2 attempts", "was killed by SIGSEGV", "last words", "execute_model"):
            assert part in str(raised)


@pytest.mark.parametrize(
    ("runner", "model", "error", "text"),
    [
        ("no_such_module:Runner", MODEL, WorkerDied, "ModuleNotFoundError: No module named 'no_such_module'"),
        (RUNNER, ModelConfig(device="cpu:5"), UsageError, "--device cpu:5: no such device here"),
        (RUNNER, ModelConfig(device="cpu", model="nowhere"), EngineError, "OSError: nowhere is not there"),
    ],
)
def test_a_worker_that_cannot_begin_says_why(
    runner: str, model: ModelConfig, error: type[Exception], text: str
) -> None:
    executor: Executor = LocalExecutor(EngineConfig(runner=runner), lambda event: None)
    with executor, pytest.raises(error, match="(?s)" + text):
        executor.load(model).loaded.result(PATIENCE_S)


def test_a_worker_whose_parent_is_shot_leaves_in_the_middle_of_a_forward() -> None:
    program = f"""
        import threading
        from omni_cli.config import EngineConfig, ModelConfig
        from omni_cli.events import ForwardStarted
        from omni_cli.executor.local import LocalExecutor
        from tests.executor.test_workers import planned

        def observe(event):
            if isinstance(event, ForwardStarted):
                print(executor._crew.links[0].process.pid, flush=True)

        executor = LocalExecutor(EngineConfig(runner={RUNNER!r}), observe)
        executor.load(ModelConfig(device="cpu")).loaded.result()
        executor.submit([planned("a", prompt="hang")])[0].output_ready.result()
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, env=environment, text=True
    ) as parent:
        assert parent.stdout is not None
        worker = os.pidfd_open(int(parent.stdout.readline()))
        assert not select.select([worker], [], [], 0)[0]
        parent.send_signal(signal.SIGKILL)
    gone, _, _ = select.select([worker], [], [], PATIENCE_S)
    os.close(worker)
    assert gone
