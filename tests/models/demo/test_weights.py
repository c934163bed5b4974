"""The weights in the package: small, readable, loadable offline, and accurate on held-out scenes."""

import json
from pathlib import Path

import pytest
import torch
from diffusers import WanPipeline

from omni_cli.models.demo import WEIGHTS
from omni_cli.models.demo.scenes import caption
from tools.demo_model.detect import attribute_accuracy
from tools.demo_model.evaluate import detect_all, render
from tools.demo_model.scene_data import held_out

FILES = [path for path in WEIGHTS.rglob("*") if path.is_file()]


@pytest.fixture(scope="module")
def pipe() -> WanPipeline:
    pipe = WanPipeline.from_pretrained(WEIGHTS, torch_dtype=torch.float32, local_files_only=True)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def test_folder_fits_in_a_wheel() -> None:
    assert sum(path.stat().st_size for path in FILES) < 10_000_000


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(WEIGHTS)))
def test_files_can_be_read_by_all(path: Path) -> None:
    assert path.stat().st_mode & 0o444 == 0o444


@pytest.mark.parametrize("path", [p for p in FILES if p.suffix == ".json"], ids=lambda p: str(p.relative_to(WEIGHTS)))
def test_configs_name_no_path_of_the_machine_that_made_them(path: Path) -> None:
    assert "_name_or_path" not in json.loads(path.read_text())


def test_tokenizer_loads_in_old_and_new_transformers() -> None:
    config = json.loads((WEIGHTS / "tokenizer" / "tokenizer_config.json").read_text())
    words = json.loads((WEIGHTS / "tokenizer" / "tokenizer.json").read_text())
    assert config["tokenizer_class"] == "PreTrainedTokenizerFast"
    assert words["truncation"] is None
    assert words["padding"] is None


@pytest.mark.parametrize("size", [(9, 64, 64), (1, 64, 64)], ids=str)
def test_held_out_prompts_are_followed(pipe: WanPipeline, size: tuple[int, int, int]) -> None:
    scenes = held_out()[-12:]
    detections = detect_all(render(pipe, [caption(scene) for scene in scenes], size))
    shares = attribute_accuracy(zip(scenes, detections, strict=True))
    assert {name: share for name, share in shares.items() if name != "all" and share < 11 / 12} == {}


def test_does_not_depend_on_the_padded_length_of_the_prompt(pipe: WanPipeline) -> None:
    scenes = held_out()[:4]
    for length in (32, 64, 512):
        clips = render(pipe, [caption(scene) for scene in scenes], (1, 64, 64), max_sequence_length=length)
        assert attribute_accuracy(zip(scenes, detect_all(clips), strict=True))["foreground"] == 1.0


def test_a_seed_gives_the_same_clip_twice(pipe: WanPipeline) -> None:
    once, again = (render(pipe, ["a red circle on a blue background"], (5, 64, 64))[0] for _ in range(2))
    assert (once == again).all()
