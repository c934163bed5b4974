"""Located requests, cards and planners over a folder, for the tests of planning."""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from omni_cli.config import ModelConfig, OutputConfig, RunConfig
from omni_cli.errors import Diagnostic
from omni_cli.media import Kind
from omni_cli.models.cards import Card, SizeRule
from omni_cli.planner import ModelFacts, Models, Planner
from omni_cli.request import GenerationRequest, ModelInfo


@dataclass(frozen=True)
class Row:
    """A request with a place; its fields are all in column 7."""

    request: GenerationRequest
    index: int = 0

    @property
    def line(self) -> int:
        return self.index + 1

    def problem(self, field: str, cause: str, remedy: str = "") -> Diagnostic:
        return Diagnostic(cause, remedy, field=field, source="prompts.jsonl", line=self.line, column=7)


@pytest.fixture
def ask():
    """ask(index=3, id="a", ...) gives a located request; its prompt and its id (the index) are added unless given."""

    def make(index: int = 0, **fields) -> Row:
        return Row(GenerationRequest(**{"prompt": "a red circle", "id": f"{index:05d}", **fields}), index)

    return make


@pytest.fixture
def card():
    """Return a video card with the rules of Wan."""
    return Card(
        pipeline="WanPipeline",
        kind=Kind.VIDEO,
        sizes=SizeRule(multiple=16, frame_step=4, frame_offset=1),
        defaults=GenerationRequest(
            height=64, width=64, num_frames=9, fps=8.0, num_inference_steps=8, guidance_scale=3.0
        ),
        batchable=True,
        parameters=(
            "prompt",
            "negative_prompt",
            "height",
            "width",
            "num_frames",
            "num_inference_steps",
            "guidance_scale",
            "max_sequence_length",
        ),
    )


@pytest.fixture
def image_card():
    """Return an image-to-image card."""
    return Card(
        pipeline="FluxPipeline",
        kind=Kind.IMAGE,
        batchable=True,
        parameters=("prompt", "prompt_2", "height", "width", "image", "mask_image", "strength"),
    )


INFO = ModelInfo(id="demo", revision="abc", pipeline="WanPipeline", dtype="float32")
VERSIONS = {"torch": "2.13.0", "diffusers": "0.42.1", "transformers": "5.1.0"}


@pytest.fixture
def planner(tmp_path, card):
    """planner(seed=1, output={...}, card=..., ...) makes one over tmp_path/out, with inputs in tmp_path."""

    def make(*, output=None, defaults=None, model=None, info=INFO, versions=VERSIONS, card=card, **config) -> Planner:
        run = RunConfig(
            model=ModelConfig(**(model or {})),
            output=OutputConfig(**{"output_dir": str(tmp_path / "out"), **(output or {})}),
            defaults=GenerationRequest(**(defaults or {})),
            **config,
        )
        models = Models(run.model, tmp_path, lambda model: ModelFacts(card, info, versions))
        return Planner(run, models, tmp_path)

    return make


def fill_output_folder(folder: Path) -> None:
    """Make an output folder with files, folders, links and a pipe in the way, unless it exists."""
    if folder.exists():
        return
    folder.mkdir()
    (folder / "dir.mp4").mkdir()
    (folder / "é.mp4").mkdir()
    (folder / "B.mp4").write_text("older output")
    (folder / "link.mp4").symlink_to("/etc/passwd")
    (folder / "way").symlink_to("/etc")
    os.mkfifo(folder / "pipe.mp4")
