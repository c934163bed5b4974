"""The runner without a model keeps the same contract as the one with."""

import subprocess
import sys

import pytest

from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.errors import RequestCancelled
from omni_cli.media import Kind, check
from omni_cli.worker.null import NullRunner
from omni_cli.worker.protocol import Runner
from tests.worker.conftest import levels, planned, run


@pytest.fixture
def runner() -> NullRunner:
    made: Runner = NullRunner()
    loaded = made.load(ModelConfig(device="cpu"), EngineConfig(), lambda _: None)
    assert (loaded.info.pipeline, loaded.device) == ("Null", "cpu")
    assert isinstance(made, NullRunner)
    return made


def test_media_have_the_asked_size_and_the_seeds_level(runner: NullRunner) -> None:
    video, image = run(runner, planned((0, 300), height=8, width=6, num_frames=5), planned((255,), height=4, width=4))
    check(video, 2)
    assert (video.spec.kind, image.spec.kind) == (Kind.VIDEO, Kind.IMAGE)
    assert levels(video).shape == (2, 5, 8, 6, 3)
    assert [set(clip.ravel()) for clip in levels(video)] == [{0}, {44}]
    assert set(levels(image).ravel()) == {255}


def test_every_level_is_exact(runner: NullRunner) -> None:
    for seed in range(256):
        assert set(levels(run(runner, planned((seed,), height=1, width=1))[0]).ravel()) == {seed}


def test_steps_are_reported_and_can_be_stopped(runner: NullRunner) -> None:
    seen: list[tuple[int, int]] = []
    with pytest.raises(RequestCancelled):
        runner.execute_model([planned(num_inference_steps=4)], lambda *step: seen.append(step), lambda: len(seen) == 3)
    assert seen == [(1, 4), (2, 4), (3, 4)]


def test_it_imports_no_diffusers() -> None:
    code = "import sys, omni_cli.worker.null; sys.exit('diffusers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
