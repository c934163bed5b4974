"""Rounds with known times, and arms of the engine with a runner that needs no model."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from omni_cli.api import Session
from omni_cli.bench.arms import ARM_SPECS, LoadedArm, Measurement, Round, arm_config
from omni_cli.bench.engine_arm import EngineArm
from omni_cli.bench.equality import OutputComparison
from omni_cli.bench.report import BenchSettings, Report, summarize
from omni_cli.bench.workload import bench_requests
from omni_cli.config import EngineConfig, ModelConfig, RunConfig
from omni_cli.events import AnyEvent, EncodeDone, ForwardDone, ForwardStarted, OutputArrived
from omni_cli.request import GenerationRequest, Interval
from omni_cli.writers.readback import Difference

MakeRound = Callable[..., Round]

NULL = RunConfig(
    model=ModelConfig(model="null", device="cpu"), engine=EngineConfig(runner="omni_cli.worker.null:NullRunner")
)
FIELDS = GenerationRequest(width=16, height=8, num_frames=1, extra={"forward_seconds": 0.02})


def open_engine(folder: Path, name: str) -> AbstractContextManager[EngineArm]:
    """Open the engine arm `name` with a folder of its own in `folder`."""
    return EngineArm.open(ARM_SPECS[name], arm_config(ARM_SPECS[name], NULL, folder / name), Session)


@pytest.fixture
def make_round() -> MakeRound:
    """Return a function that makes a round of forwards, each followed by its output; times are seconds.

    With `hidden`, the next forward starts at once and overlaps with the output, else after it.
    """

    def make(requests: int, forward: float, output: float, *, hidden: bool, d2h: bool = True) -> Round:
        clock, events = 100.0, []
        for number in range(requests):
            ids, done = (f"{number:04d}",), clock + forward
            encode = Interval(done, done + output)
            new: list[AnyEvent] = [
                ForwardStarted(at=clock, worker=0, ids=ids),
                ForwardDone(at=done, worker=0, ids=ids, forward=Interval(clock, done)),
            ]
            if d2h:
                new.append(OutputArrived(at=done, worker=0, id=ids[0], d2h=Interval(done, done), bytes=1000))
            nothing = Interval(encode.end, encode.end)
            events += [*new, EncodeDone(at=encode.end, id=ids[0], encode=encode, write=nothing)]
            clock = done if hidden else encode.end
        return Round(events[-1].at - 100.0, requests, tuple(events))

    return make


@pytest.fixture
def measurement(make_round: MakeRound) -> Measurement:
    """Return three arms with three rounds of four requests: forwards take 1.0, 1.1 and 1.2 s, outputs 0.25 s."""

    def rounds(*, hidden: bool, d2h: bool = True) -> list[Round]:
        return [make_round(4, forward, 0.25, hidden=hidden, d2h=d2h) for forward in (1.0, 1.1, 1.2)]

    turns = {"no-async": rounds(hidden=False), "async": rounds(hidden=True), "plain": rounds(hidden=False, d2h=False)}
    loaded = {name: LoadedArm(4.5, "WanPipeline", "cpu", "float32") for name in turns}
    return Measurement(loaded, turns, bench_requests(GenerationRequest(), 4))


@pytest.fixture
def settings() -> BenchSettings:
    """Return the settings of `measurement`."""
    return BenchSettings(
        model="demo",
        pipeline="WanPipeline",
        device="cpu",
        device_name="",
        dtype="float32",
        request=GenerationRequest(num_inference_steps=8, guidance_scale=3.0),
        width=768,
        height=512,
        num_frames=1,
        format="png",
        requests=4,
        rounds=3,
        batch_size=1,
        device_postprocess=True,
    )


@pytest.fixture
def report(measurement: Measurement, settings: BenchSettings) -> Report:
    """Return the report of `measurement`, with equal outputs."""
    equal = OutputComparison("plain", "async", "pixels of the files", Difference(0, 4), 0)
    return summarize(measurement, [equal], {"processor": "Test", "cores": 2}, settings)
