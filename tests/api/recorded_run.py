"""A finished run with outputs of many formats, for tests that render them again."""

import json
from pathlib import Path
from typing import Any

import msgspec

from omni_cli.api.run_file import run_file
from omni_cli.api.session import Session
from omni_cli.config import EngineConfig, OutputConfig, RunConfig
from omni_cli.prompts.prompt_source import PromptSource
from omni_cli.trace import Timeline

CONFIG = RunConfig(engine=EngineConfig(executor="inline", runner="omni_cli.worker.null:NullRunner"))
PROMPTS: list[dict[str, Any]] = [
    {"id": "clip", "prompt": "a [red] circle\x07", "num_frames": 3, "seed": 30},
    {"id": "pair", "prompt": "two", "num_outputs": 2, "seed": 40, "output": "in/side.png"},
    {"id": "late", "prompt": "derived seed", "format": "jpeg", "negative_prompt": "none"},
    {"id": "array", "prompt": "levels", "format": "npy", "seed": 60},
    {"id": "deep", "prompt": "floats", "format": "png16", "seed": 70},
    {"id": "loose", "prompt": "frames", "format": "frames", "num_frames": 2, "seed": 80},
    {"id": "zip", "prompt": "arrays", "format": "npz", "seed": 90},
    {"id": "tensors", "prompt": "tensors", "format": "safetensors", "num_frames": 2, "seed": 100},
]


def render_recorded_run(folder: Path) -> Path:
    """Render PROMPTS into `folder`/out at JPEG quality 70, and return that folder."""
    config = msgspec.structs.replace(CONFIG, output=OutputConfig(output_dir=str(folder / "out"), quality=70), seed=9)
    render_lines("".join(json.dumps(line) + "\n" for line in PROMPTS).encode(), folder / "p.jsonl", config)
    return folder / "out"


def render_lines(lines: bytes, prompts: Path, config: RunConfig) -> None:
    """Write the prompt file `prompts` and render all of it."""
    prompts.write_bytes(lines)
    render_source(PromptSource(str(prompts), config.defaults), config)


def render_source(prompts: PromptSource, config: RunConfig) -> None:
    """Render all of `prompts`."""
    with prompts as source, Session(config, lambda event: None, Timeline(), base=source.base) as session:
        assert run_file(session, source) == 0
