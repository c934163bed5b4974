"""A custom pipeline with a processor outside of diffusers: its code needs a flag, everything else is in its card."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import pytest
import torch

from omni_cli.config import ModelConfig
from omni_cli.errors import ForwardError, ModelLoadError, UsageError
from omni_cli.media import UNIT
from omni_cli.worker.loader import load
from tests.factories import planned
from tests.worker.conftest import levels, run
from tests.worker.conftest import load as load_runner

CODE = '''
"""Return the noise of the seed, in 0..10, through a processor outside of diffusers."""
from types import SimpleNamespace

import torch
from diffusers import DDIMPipeline


class LevelsProcessor:
    """A processor that is no diffusers class."""

    def postprocess(self, picture, output_type="levels"):
        if output_type != "levels":
            raise ValueError(output_type)
        return (picture.permute(0, 2, 3, 1) / 10 * 255).round().to(torch.uint8).numpy()


class NoisePipeline(DDIMPipeline):
    """The custom pipeline class."""

    def __init__(self, unet, scheduler):
        super().__init__(unet, scheduler)
        self.levels_processor = LevelsProcessor()

    def __call__(self, height=16, width=16, generator=None, output_type="levels"):
        noise = torch.rand(1, 3, height, width, generator=generator) * 12 - 1
        return SimpleNamespace(images=self.levels_processor.postprocess(noise.clamp(0, 10), output_type=output_type))
'''

CARD = """
[cards.NoisePipeline]
kind = "image"
output_type = "device"
processors = ["levels_processor"]
value_range = [0.0, 10.0]
sizes = { multiple = 2 }
defaults = { height = 24, width = 32 }
"""

Settings = dict[str, Any]


@pytest.fixture
def settings(tiny_model: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Return the model settings of NoisePipeline over the tiny DDIM model, with its card."""
    monkeypatch.setattr("diffusers.utils.dynamic_modules_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr("sys.path", [*sys.path])
    (tmp_path / "pipeline.py").write_text(CODE)
    (tmp_path / "cards.toml").write_text(CARD)
    return {
        "model": str(tiny_model("ddim")),
        "custom_pipeline": str(tmp_path),
        "trust_remote_code": True,
        "cards": str(tmp_path / "cards.toml"),
    }


def test_a_custom_processor_needs_nothing_but_a_card(settings: Settings) -> None:
    runner = load_runner(**settings)
    card = runner._model.card
    assert (card.pipeline, card.sizes.multiple, card.defaults.height) == ("NoisePipeline", 2, 24)
    assert "generator" in card.parameters
    media = run(runner, planned(height=24, width=32))[0]
    assert media.spec.value_range == (0.0, 10.0)
    pipeline = diffusers.DiffusionPipeline.from_pretrained(
        settings["model"], custom_pipeline=settings["custom_pipeline"], trust_remote_code=True
    )
    expected = pipeline(height=24, width=32, generator=torch.Generator().manual_seed(5)).images
    np.testing.assert_array_equal(levels(media), expected)
    assert expected.std() > 60


def test_a_custom_processor_without_a_card_fails_the_request(settings: Settings) -> None:
    with pytest.raises(ForwardError, match="NoisePipeline: ValueError: np"):
        run(load_runner(**settings | {"cards": None}), planned(height=24, width=32))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('processors = ["markers"]', "'markers' is NoneType, which has neither postprocess nor postprocess_video"),
        ("value_range = ", "give value_range, the floats that mean black and white"),
    ],
)
def test_a_card_that_does_not_fit_the_class_is_an_error(
    line: str, words: str, settings: Settings, tmp_path: Path
) -> None:
    key = line.partition(" ")[0]
    lines = ["" if old.startswith(key) else old for old in CARD.splitlines()]
    path = tmp_path / "other.toml"
    path.write_text("\n".join([*lines, line if line[-1] == "]" else ""]))
    with pytest.raises(ModelLoadError, match=words):
        load_runner(**settings | {"cards": str(path)})


def test_a_custom_pipeline_is_not_run_unless_it_is_trusted(settings: Settings, tmp_path: Path) -> None:
    def usage_error(**changes: Any) -> str:
        with pytest.raises(UsageError) as error:
            load_runner(**settings | changes)
        return str(error.value)

    assert "pass --trust-remote-code" in usage_error(trust_remote_code=False)
    assert not (tmp_path / "modules").exists()
    assert "download it first" in usage_error(custom_pipeline="someone/pipeline")
    assert "give one" in usage_error(pipeline="DDPMPipeline")


def test_a_change_of_the_code_changes_the_revision(settings: Settings, tmp_path: Path) -> None:
    def revision() -> str | None:
        return load(ModelConfig(device="cpu", **settings), lambda _: None).info.revision

    before = revision()
    assert before == revision()
    (tmp_path / "pipeline.py").write_text(CODE + "\n# changed\n")
    assert revision() != before


def test_the_value_range_of_a_card_applies_to_numpy_output(settings: Settings, tmp_path: Path) -> None:
    path = tmp_path / "np.toml"
    path.write_text("[cards.DDIMPipeline]\nvalue_range = [0.0, 2.0]\n")
    runner = load_runner(str(settings["model"]), cards=str(path))
    request = planned(num_inference_steps=2)
    dark = run(runner, request)[0]
    plain = run(load_runner(str(settings["model"])), request)[0]
    assert (dark.spec.value_range, plain.spec.value_range) == ((0.0, 2.0), UNIT)
    assert levels(dark).max() <= 128 < levels(plain).max()
