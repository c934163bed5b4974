"""Rounds with known times, as if an arm had run."""

from collections.abc import Callable

import pytest

from omni_cli.bench.arms import Ready, Round
from omni_cli.bench.conduct import Measured
from omni_cli.bench.load import requests_of
from omni_cli.bench.report import Settings
from omni_cli.events import AnyEvent, EncodeDone, ForwardDone, ForwardStarted, OutputReady
from omni_cli.request import GenerationRequest, Interval

MakeRound = Callable[..., Round]


@pytest.fixture
def make_round() -> MakeRound:
    """A round of `requests` forwards of `forward` seconds each, their outputs right behind.

    `hidden`: the next forward begins at once, beside the output of `output` seconds; else it waits for it.
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
                new.append(OutputReady(at=done, worker=0, id=ids[0], d2h=Interval(done, done), bytes=1000))
            nothing = Interval(encode.end, encode.end)
            events += [*new, EncodeDone(at=encode.end, id=ids[0], encode=encode, write=nothing)]
            clock = done if hidden else encode.end
        return Round(events[-1].at - 100.0, requests, tuple(events))

    return make


@pytest.fixture
def measured(make_round: MakeRound) -> Measured:
    """Three arms, three rounds of four requests: a forward takes 1 s (and a bit more each round), an output 0.25 s."""

    def rounds(*, hidden: bool, d2h: bool = True) -> list[Round]:
        return [make_round(4, forward, 0.25, hidden=hidden, d2h=d2h) for forward in (1.0, 1.1, 1.2)]

    turns = {"no-async": rounds(hidden=False), "async": rounds(hidden=True), "plain": rounds(hidden=False, d2h=False)}
    ready = {name: Ready(4.5, "WanPipeline", "cpu", "float32") for name in turns}
    return Measured(ready, turns, requests_of(GenerationRequest(), 4))


@pytest.fixture
def settings() -> Settings:
    """Settings of that bench."""
    return Settings(
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
