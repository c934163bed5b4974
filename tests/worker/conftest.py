"""Tiny pipelines for the tests of the worker: saved once per session, loaded once per way of loading."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import pytest
import torch

from omni_cli.config import EngineConfig, ModelConfig, VideoOutputTransport
from omni_cli.media import Kind, Media
from omni_cli.platforms.streamless import CpuPlatform
from omni_cli.request import PlannedRequest
from omni_cli.worker.output.packer import Packer
from omni_cli.worker.runner import DiffusersRunner
from tests import tiny

Levels = np.ndarray[Any, np.dtype[np.uint8]]


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that saves the tiny pipeline of a name, once per session, and returns its folder."""
    root, done = tmp_path_factory.mktemp("tiny"), {}

    def folder(name: str) -> Path:
        if name not in done:
            done[name] = tiny.save(name, root / name)
        return done[name]

    return folder


@pytest.fixture(scope="session")
def runner_of(tiny_model: Callable[[str], Path]) -> Callable[..., DiffusersRunner]:
    """Return a function that returns the session's runner with the tiny pipeline of a name and dtype."""
    done: dict[tuple[str, str], DiffusersRunner] = {}

    def runner(name: str, dtype: str = "float32") -> DiffusersRunner:
        if (name, dtype) not in done:
            done[name, dtype] = load(str(tiny_model(name)), dtype=dtype)
        return done[name, dtype]

    return runner


@pytest.fixture(scope="session")
def plain_of(tiny_model: Callable[[str], Path]) -> Callable[..., Any]:
    """Return a function that returns diffusers' own pipeline over the same files, which defines the expected pixels."""
    done: dict[tuple[str, torch.dtype], Any] = {}

    def pipeline(name: str, dtype: torch.dtype = torch.float32) -> Any:
        if (name, dtype) not in done:
            done[name, dtype] = plain(tiny_model(name), dtype)
        return done[name, dtype]

    return pipeline


def plain(folder: Path, dtype: torch.dtype = torch.float32) -> Any:
    """Return diffusers' own pipeline in `folder`."""
    pipeline = diffusers.DiffusionPipeline.from_pretrained(folder, dtype=dtype)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def load(model: str, **more: Any) -> DiffusersRunner:
    """Return a runner with `model` loaded on the CPU."""
    runner = DiffusersRunner()
    runner.load(ModelConfig(model=model, device="cpu", **more), EngineConfig(), lambda _: None)
    return runner


def run(runner: DiffusersRunner, *requests: PlannedRequest) -> list[Media]:
    """Run `requests` as one batch and return their media."""
    return runner.execute_model(requests, lambda step, total: None, lambda: False)


def levels(media: Media) -> Levels:
    """Return uint8 [N, H, W, C] of an image or [N, T, H, W, C] of a video, packed as the output thread packs it."""
    memory = bytearray()

    def allocate(nbytes: int) -> bytearray:
        memory.extend(bytes(nbytes))
        return memory

    header = Packer(CpuPlatform(), VideoOutputTransport()).pack(media, None, allocate).header
    frames: Levels = np.frombuffer(memory, header.dtype, math.prod(header.shape)).reshape(header.shape)
    return frames[:, 0] if header.kind is Kind.IMAGE else frames


def reference(pipeline: Any, seed: int | list[int], **keywords: Any) -> Levels:
    """Return the pixels like `levels`, computed by diffusers with `output_type="np"` and then rounded."""
    seeds = [seed] if isinstance(seed, int) else seed
    generators = [torch.Generator("cpu").manual_seed(s) for s in seeds]
    output = pipeline(**keywords, generator=generators if len(seeds) > 1 else generators[0], output_type="np")
    floats = np.asarray(output.frames if hasattr(output, "frames") else output.images)
    result: Levels = (floats * 255).round().astype("uint8")
    return result
