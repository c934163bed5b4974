"""NullRunner keeps the contract of a Runner."""

import subprocess
import sys

import pytest

from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.errors import RequestCancelled
from omni_cli.media import Kind, check
from omni_cli.worker.null import NullRunner
from omni_cli.worker.runner_protocol import Runner
from tests.factories import planned
from tests.worker.conftest import levels, run


@pytest.fixture
def runner() -> NullRunner:
    runner: Runner = NullRunner()
    loaded = runner.load(ModelConfig(device="cpu"), EngineConfig(), lambda _: None)
    assert (loaded.info.pipeline, loaded.device) == ("Null", "cpu")
    assert isinstance(runner, NullRunner)
    return runner


def test_media_have_the_requested_size_and_the_level_of_their_seed(runner: NullRunner) -> None:
    video, image = run(
        runner, planned(seeds=(0, 300), height=8, width=6, num_frames=5), planned(seeds=(255,), height=4, width=4)
    )
    check(video, 2)
    assert (video.spec.kind, image.spec.kind) == (Kind.VIDEO, Kind.IMAGE)
    assert levels(video).shape == (2, 5, 8, 6, 3)
    assert [set(clip.ravel()) for clip in levels(video)] == [{0}, {44}]
    assert set(levels(image).ravel()) == {255}


def test_every_level_is_exact(runner: NullRunner) -> None:
    for seed in range(256):
        assert set(levels(run(runner, planned(seeds=(seed,), height=1, width=1))[0]).ravel()) == {seed}


def test_steps_are_reported_and_can_be_cancelled(runner: NullRunner) -> None:
    steps: list[tuple[int, int]] = []
    with pytest.raises(RequestCancelled):
        runner.execute_model(
            [planned(num_inference_steps=4)], lambda *step: steps.append(step), lambda: len(steps) == 3
        )
    assert steps == [(1, 4), (2, 4), (3, 4)]


def test_the_null_runner_does_not_import_diffusers() -> None:
    code = "import sys, omni_cli.worker.null; sys.exit('diffusers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
