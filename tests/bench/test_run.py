"""Arms of the real engine, with a runner that needs no model."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from omni_cli.api import Session
from omni_cli.bench.arms import SPECS, chosen, config_of
from omni_cli.bench.engine_arm import EngineArm
from omni_cli.bench.load import Counts, requests_of
from omni_cli.bench.plain_arm import PlainArm
from omni_cli.bench.run import Outcome, run_bench
from omni_cli.bench.verify import verify
from omni_cli.config import EngineConfig, ModelConfig, RunConfig
from omni_cli.errors import EngineError, UsageError
from omni_cli.request import GenerationRequest

NULL = RunConfig(
    model=ModelConfig(model="null", device="cpu"), engine=EngineConfig(runner="omni_cli.worker.null:NullRunner")
)
FIELDS = GenerationRequest(width=16, height=8, num_frames=1, extra={"seconds": 0.02})


def run(folder: Path, arms: str, batch_size: int = 1, fields: GenerationRequest = FIELDS) -> Outcome:
    engine = EngineConfig(runner=NULL.engine.runner, batch_size=batch_size)
    config = RunConfig(model=NULL.model, engine=engine)
    return run_bench(config, fields, chosen(arms, batch_size), Counts(3, 2), folder, Session, lambda line: None)


def test_arms_of_the_engine_render_the_same_pixels_and_every_figure_is_there(tmp_path: Path) -> None:
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
    assert report.arms["async"].flow.bytes_moved == 16 * 8 * 3
    assert report.arms["async-float"].flow.bytes_moved == 16 * 8 * 3 * 4
    assert report.settings.request == GenerationRequest(num_inference_steps=1)
    assert (report.settings.width, report.settings.height, report.settings.format) == (16, 8, "png")


def test_a_pixel_that_differs_is_found(tmp_path: Path) -> None:
    requests = requests_of(FIELDS, 2)
    first, second = (
        EngineArm(SPECS[name], config_of(SPECS[name], NULL, tmp_path / name), Session) for name in ("async", "no-async")
    )
    with first, second:
        for arm in (first, second):
            arm.run(requests)
        picture = np.asarray(Image.open(tmp_path / "no-async" / "0001.png")).copy()
        picture[7, 15, 2] += 9
        Image.fromarray(picture).save(tmp_path / "no-async" / "0001.png")
        (check,) = verify([first, second], requests, "float32")
    assert not check.passed
    assert check.found.levels == 9


def test_batches_of_video_are_compared_before_encoding_and_by_frames(tmp_path: Path) -> None:
    outcome = run(tmp_path, "async,async-batch", 2, GenerationRequest(width=16, height=16, num_frames=5, fps=8.0))
    assert outcome.report.settings.format == "mp4"
    assert outcome.report.outputs_compared == ("async-batch = async: levels before encoding, 15 frames",)
    forwards = outcome.measured.rounds["async-batch"][-1].events
    assert [len(event.ids) for event in forwards if type(event).__name__ == "ForwardDone"] == [2, 1]


def test_what_the_model_cannot_take_is_said_in_the_bench_s_own_flags(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--format: .*mp4"):
        run(tmp_path, "async", fields=GenerationRequest(width=16, height=16, num_frames=5, fps=8.0, format="png"))


def test_a_plain_loop_that_cannot_load_ends_the_bench_with_its_log(tmp_path: Path) -> None:
    with EngineArm(SPECS["async"], config_of(SPECS["async"], NULL, tmp_path / "async"), Session) as engine:
        engine.load()
        model = ModelConfig(model=str(tmp_path / "no-such-model"), device="cpu")
        with (
            PlainArm(model, tmp_path / "plain", engine.plan, lambda: engine.card) as plain,
            pytest.raises(EngineError, match=r"(?s)plain loop ended with code 1.*no such folder or file"),
        ):
            plain.load()
