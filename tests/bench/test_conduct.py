"""The order of turns, and how many."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from omni_cli.bench.arms import SPECS, Ready, Round, Spec
from omni_cli.bench.conduct import conduct
from omni_cli.bench.load import Counts
from omni_cli.events import ForwardDone
from omni_cli.request import GenerationRequest, Interval


class RecordingArm:
    """An arm that only notes its turns; a request takes `pace` seconds of its own clock."""

    def __init__(self, name: str, pace: float, turns: list[tuple[str, int]]) -> None:
        self._name, self._pace, self._turns = name, pace, turns

    @property
    def spec(self) -> Spec:
        return SPECS[self._name]

    @property
    def folder(self) -> Path:
        return Path(self._name)

    def load(self) -> Ready:
        self._turns.append((f"load {self._name}", 0))
        return Ready(1.0, "Null", "cpu", "float32")

    def run(self, requests: Sequence[GenerationRequest]) -> Round:
        self._turns.append((self._name, len(requests)))
        seconds = self._pace * len(requests)
        ids = tuple(request.id or "" for request in requests)
        return Round(
            seconds, len(requests), (ForwardDone(at=seconds, worker=0, ids=ids, forward=Interval(0.0, seconds)),)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


def test_arms_load_warm_up_and_then_take_turns_that_begin_at_another_arm_each_round() -> None:
    turns: list[tuple[str, int]] = []
    arms = [RecordingArm(name, 1.0, turns) for name in ("no-async", "async", "plain")]
    measured = conduct(arms, GenerationRequest(), Counts(5, 4), 1, lambda line: None)
    assert [name for name, _ in turns[:3]] == ["load no-async", "load async", "load plain"]
    assert turns[3:9] == [("no-async", 1)] * 2 + [("async", 1)] * 2 + [("plain", 1)] * 2
    names = [name for name, count in turns[9:] if count == 5]
    assert names == [
        *("no-async", "async", "plain"),
        *("async", "plain", "no-async"),
        *("plain", "no-async", "async"),
        *("no-async", "async", "plain"),
    ]
    assert measured.seconds("async") == [1.0] * 4


def test_counts_follow_from_the_pace_that_the_warm_up_showed() -> None:
    turns: list[tuple[str, int]] = []
    measured = conduct(
        [RecordingArm("async", 10.0, turns), RecordingArm("no-async", 10.0, turns)],
        GenerationRequest(),
        Counts(),
        1,
        lambda line: None,
    )
    assert (len(measured.requests), len(measured.rounds["async"])) == (4, 3)


def test_a_batched_arm_warms_up_with_a_whole_batch() -> None:
    turns: list[tuple[str, int]] = []
    conduct([RecordingArm("async-batch", 1.0, turns)], GenerationRequest(), Counts(8, 1), 8, lambda line: None)
    assert turns[1:3] == [("async-batch", 8)] * 2
