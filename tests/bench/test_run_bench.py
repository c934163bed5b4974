"""The order of turns with recording arms, and whole benches of the engine with a runner that needs no model."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from omni_cli.api import Session
from omni_cli.bench.arms import ARM_SPECS, LoadedArm, Round, select_arms
from omni_cli.bench.run_bench import Outcome, measure, run_bench
from omni_cli.bench.workload import BenchSize
from omni_cli.config import EngineConfig, RunConfig
from omni_cli.errors import UsageError
from omni_cli.events import ForwardDone
from omni_cli.request import GenerationRequest, Interval
from tests.bench.conftest import FIELDS, NULL


class RecordingArm:
    """An arm that only records its turns; a request takes `pace` seconds of its own clock."""

    def __init__(self, name: str, pace: float, turns: list[tuple[str, int]]) -> None:
        self.spec, self.folder = ARM_SPECS[name], Path(name)
        self._name, self._pace, self._turns = name, pace, turns

    def load(self) -> LoadedArm:
        self._turns.append((f"load {self._name}", 0))
        return LoadedArm(1.0, "Null", "cpu", "float32")

    def run(self, requests: Sequence[GenerationRequest]) -> Round:
        self._turns.append((self._name, len(requests)))
        seconds = self._pace * len(requests)
        ids = tuple(request.id or "" for request in requests)
        return Round(
            seconds, len(requests), (ForwardDone(at=seconds, worker=0, ids=ids, forward=Interval(0.0, seconds)),)
        )


def test_arms_load_warm_up_and_take_turns_in_an_order_that_rotates() -> None:
    turns: list[tuple[str, int]] = []
    arms = [RecordingArm(name, 1.0, turns) for name in ("no-async", "async", "plain")]
    measurement = measure(arms, GenerationRequest(), BenchSize(5, 4), 1, lambda line: None)
    assert [name for name, _ in turns[:3]] == ["load no-async", "load async", "load plain"]
    assert turns[3:9] == [("no-async", 1)] * 2 + [("async", 1)] * 2 + [("plain", 1)] * 2
    names = [name for name, count in turns[9:] if count == 5]
    assert names == [
        *("no-async", "async", "plain"),
        *("async", "plain", "no-async"),
        *("plain", "no-async", "async"),
        *("no-async", "async", "plain"),
    ]
    assert measurement.seconds("async") == [1.0] * 4


def test_default_size_follows_from_the_warm_up() -> None:
    turns: list[tuple[str, int]] = []
    measurement = measure(
        [RecordingArm("async", 10.0, turns), RecordingArm("no-async", 10.0, turns)],
        GenerationRequest(),
        BenchSize(),
        1,
        lambda line: None,
    )
    assert (len(measurement.requests), len(measurement.rounds["async"])) == (4, 3)


def test_a_batched_arm_warms_up_with_a_whole_batch() -> None:
    turns: list[tuple[str, int]] = []
    measure([RecordingArm("async-batch", 1.0, turns)], GenerationRequest(), BenchSize(8, 1), 8, lambda line: None)
    assert turns[1:3] == [("async-batch", 8)] * 2


def run(folder: Path, arms: str, batch_size: int = 1, fields: GenerationRequest = FIELDS) -> Outcome:
    engine = EngineConfig(runner=NULL.engine.runner, batch_size=batch_size)
    config = RunConfig(model=NULL.model, engine=engine)
    return run_bench(config, fields, select_arms(arms, batch_size), BenchSize(3, 2), folder, Session, lambda line: None)


def test_arms_of_the_engine_render_the_same_pixels_and_report_every_figure(tmp_path: Path) -> None:
    outcome = run(tmp_path, "no-async,async,async-float")
    report = outcome.report
    assert report.outputs_equal
    assert report.outputs_compared == (
        "no-async = async: pixels of the files, 3 frames",
        "async-float = async: pixels of the files, 3 frames",
    )
    for name in ("no-async", "async", "async-float"):
        manifest = [json.loads(line) for line in (tmp_path / name / "manifest.jsonl").read_text().splitlines()]
        assert {row["status"] for row in manifest} == {"done"}
        assert sorted(path.name for path in (tmp_path / name).glob("*.png")) == ["0000.png", "0001.png", "0002.png"]
        assert len(report.arms[name].rounds) == 2
        assert report.arms[name].load_seconds > 0
        # Each forward sleeps 20 ms: no arm can be faster than that.
        assert report.arms[name].seconds_per_request.min > 0.02
    assert report.arms["async"].overlap.bytes_moved == 16 * 8 * 3
    assert report.arms["async-float"].overlap.bytes_moved == 16 * 8 * 3 * 4
    assert report.settings.request == GenerationRequest(num_inference_steps=1)
    assert (report.settings.width, report.settings.height, report.settings.format) == (16, 8, "png")


def test_batches_of_video_are_compared_before_encoding_and_by_frames(tmp_path: Path) -> None:
    outcome = run(tmp_path, "async,async-batch", 2, GenerationRequest(width=16, height=16, num_frames=5, fps=8.0))
    assert outcome.report.settings.format == "mp4"
    assert outcome.report.outputs_compared == ("async-batch = async: levels before encoding, 15 frames",)
    forwards = outcome.measurement.rounds["async-batch"][-1].events
    assert [len(event.ids) for event in forwards if type(event).__name__ == "ForwardDone"] == [2, 1]


def test_requests_the_model_cannot_take_are_refused_with_the_flag(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--format: .*mp4"):
        run(tmp_path, "async", fields=GenerationRequest(width=16, height=16, num_frames=5, fps=8.0, format="png"))
