"""The local executor with real workers: pixels, slots, sleep, deaths, and a parent that is killed."""

import os
import select
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.errors import EngineError, NonFiniteOutput, UsageError, WorkerDied
from omni_cli.events import Note
from omni_cli.executor import make_executor
from omni_cli.executor.error_mapping import RequestKilledWorker
from omni_cli.executor.local import LocalExecutor
from omni_cli.executor.protocol import Executor, Handle
from omni_cli.transport.messages import Health
from tests.executor.conftest import open_resources
from tests.factories import planned

TIMEOUT_S = 60.0
RUNNER = "tests.executor.runners:FaultyRunner"
MODEL = ModelConfig(device="cpu")
SMALL = {"height": 4, "width": 4}


def outputs(handles: Sequence[Handle]) -> list[tuple[tuple[int, ...], bytes]]:
    """Return the shape and the bytes of each output, and release it."""
    results = []
    for handle in handles:
        output = handle.output_ready.result(TIMEOUT_S)
        results.append((output.header.shape, bytes(output.buffer)))
        output.release()
    return results


@pytest.fixture(scope="module")
def executor() -> Iterator[LocalExecutor]:
    """Start an executor with one worker, for the tests that do not kill it."""
    with LocalExecutor(EngineConfig(runner=RUNNER), lambda event: None) as executor:
        executor.load(MODEL).loaded.result(TIMEOUT_S)
        yield executor


@pytest.fixture(autouse=True)
def _no_leaks(executor: LocalExecutor) -> Iterator[None]:
    """Count threads and children, but not descriptors: the shared executor keeps the slots it has mapped."""
    before = open_resources()[1:]
    yield
    assert open_resources()[1:] == before


MIXED = [
    [planned("picture", seeds=(1, 2), **SMALL)],
    [planned("large", seeds=(3,), height=700, width=700)],
    [
        planned("clip", seeds=(4, 5), height=300, width=300, num_frames=5),
        planned("clip2", seeds=(6,), height=30, width=20, num_frames=3),
    ],
]


def test_local_and_inline_executor_give_the_same_bytes(executor: LocalExecutor) -> None:
    by_worker = [outputs(executor.submit(call)) for call in MIXED * 2]
    with make_executor(EngineConfig(executor="inline", runner=RUNNER), lambda event: None) as inline:
        inline.load(MODEL)
        in_process = [outputs(inline.submit(call)) for call in MIXED * 2]
    assert by_worker == in_process
    assert by_worker[0] == [((2, 1, 4, 4, 3), b"\x01" * 48 + b"\x02" * 48)]


def test_slots_are_reused_and_outputs_do_not_mix(executor: LocalExecutor) -> None:
    handles = [executor.submit([planned(str(n), seeds=(n,), height=600, width=600)])[0] for n in range(20)]
    assert [data[:1] for _, data in outputs(handles)] == [bytes([n]) for n in range(20)]
    assert executor.collective_rpc("drain") == [True]
    (health,) = executor.collective_rpc("health")
    assert isinstance(health, Health)
    assert health.inflight == 0
    assert health.slots < 20


def test_sleep_drains_outputs_and_fails_if_one_is_not_released() -> None:
    engine = EngineConfig(runner=RUNNER, max_inflight_bytes=1_500_000, drain_timeout=0.05)
    with LocalExecutor(engine, lambda event: None) as executor:
        executor.load(MODEL).loaded.result(TIMEOUT_S)
        call = [planned(id_, height=700, width=700) for id_ in "ab"]
        first, second = executor.submit(call)
        output = first.output_ready.result(TIMEOUT_S)  # its slot is the only one
        message = "sleep failed: the outputs did not drain within 0.05 s; nothing was released"
        with pytest.raises(EngineError, match=message):
            executor.collective_rpc("sleep")
        assert executor.collective_rpc("drain") == [False]
        output.release()
        outputs([second])
        assert executor.collective_rpc("sleep") == [True]
        assert executor.collective_rpc("wake_up") == [None]


def test_nan_fails_its_request_and_not_the_batch(executor: LocalExecutor) -> None:
    good, bad = executor.submit([planned("good", **SMALL), planned("bad", prompt="nan", **SMALL)])
    assert isinstance(bad.output_ready.exception(TIMEOUT_S), NonFiniteOutput)
    assert outputs([good]) == [((1, 1, 4, 4, 3), b"\x05" * 48)]


def test_long_forward_is_cancelled_between_its_steps(executor: LocalExecutor) -> None:
    (long,) = executor.submit([planned("long", num_inference_steps=10_000, extra={"forward_seconds": 600.0})])
    (next_,) = executor.submit([planned("next")])
    executor.cancel(long)
    assert long.output_ready.exception(TIMEOUT_S) is not None
    assert len(outputs([next_])) == 1


def test_request_that_kills_two_workers_fails_and_the_others_finish() -> None:
    with LocalExecutor(EngineConfig(runner=RUNNER, async_output=False), lambda event: None) as executor:
        executor.load(MODEL)
        (fatal,) = executor.submit([planned("fatal", prompt="kill")])
        (good,) = executor.submit([planned("good", **SMALL)])
        assert outputs([good]) == [((1, 1, 4, 4, 3), b"\x05" * 48)]
        raised = fatal.output_ready.exception(0)
        assert isinstance(raised, RequestKilledWorker)
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
def test_worker_that_cannot_start_or_load_reports_why(
    runner: str, model: ModelConfig, error: type[Exception], text: str
) -> None:
    executor: Executor = LocalExecutor(EngineConfig(runner=runner), lambda event: None)
    with executor, pytest.raises(error, match="(?s)" + text):
        executor.load(model).loaded.result(TIMEOUT_S)


@pytest.mark.parametrize(("deaths", "restarts", "loads"), [(1, 1, True), (2, 3, True), (2, 1, False), (1, 0, False)])
def test_worker_killed_in_its_first_load_is_replaced_up_to_max_restarts(
    deaths: int, restarts: int, loads: bool, tmp_path: Path
) -> None:
    log = tmp_path / "deaths"
    log.touch()
    model = ModelConfig(device="cpu", model=str(log), revision=str(deaths))
    engine = EngineConfig(runner="tests.executor.runners:KilledLoadRunner", max_restarts=restarts)
    with LocalExecutor(engine, lambda event: None) as executor:
        loaded = executor.load(model).loaded
        if loads:
            loaded.result(TIMEOUT_S)
            assert outputs(executor.submit([planned("a", **SMALL)])) == [((1, 1, 4, 4, 3), b"\x05" * 48)]
        else:
            with pytest.raises(WorkerDied, match="was killed by SIGKILL"):
                loaded.result(TIMEOUT_S)
    assert len(log.read_text().splitlines()) == deaths


def test_worker_exits_in_the_middle_of_a_forward_when_its_parent_is_killed() -> None:
    program = f"""
        import threading
        from omni_cli.config import EngineConfig, ModelConfig
        from omni_cli.events import ForwardStarted
        from omni_cli.executor.local import LocalExecutor
        from tests.factories import planned

        def observe(event):
            if isinstance(event, ForwardStarted):
                print(executor._pool.workers[0].process.pid, flush=True)

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
    gone, _, _ = select.select([worker], [], [], TIMEOUT_S)
    os.close(worker)
    assert gone


def test_what_a_worker_warns_of_while_it_is_set_up_reaches_the_person() -> None:
    events: list[object] = []
    with LocalExecutor(EngineConfig(runner="tests.executor.runners:WarningRunner"), events.append) as executor:
        executor.load(MODEL).loaded.result(TIMEOUT_S)
    notes = [event.text for event in events if isinstance(event, Note)]
    assert notes == ["the driver is older than the backend"]
