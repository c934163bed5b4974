"""Tiny pipelines for the tests of the worker: saved once per session, loaded once per way of loading."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import pytest
import torch

from omni_cli.config import EngineConfig, ModelConfig, VideoOutputTransport
from omni_cli.media import Media
from omni_cli.request import GenerationRequest, PlannedRequest
from omni_cli.worker.postprocess import prepare
from omni_cli.worker.runner import DiffusersRunner
from tests import tiny

Levels = np.ndarray[Any, np.dtype[np.uint8]]


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Folder of the tiny pipeline of that name."""
    root, done = tmp_path_factory.mktemp("tiny"), {}

    def folder(name: str) -> Path:
        if name not in done:
            done[name] = tiny.save(name, root / name)
        return done[name]

    return folder


@pytest.fixture(scope="session")
def runner_of(tiny_model: Callable[[str], Path]) -> Callable[..., DiffusersRunner]:
    """A runner with the tiny pipeline of that name loaded, shared by the session."""
    done: dict[tuple[str, str], DiffusersRunner] = {}

    def runner(name: str, dtype: str = "float32") -> DiffusersRunner:
        if (name, dtype) not in done:
            done[name, dtype] = load(str(tiny_model(name)), dtype=dtype)
        return done[name, dtype]

    return runner


@pytest.fixture(scope="session")
def plain_of(tiny_model: Callable[[str], Path]) -> Callable[..., Any]:
    """diffusers' own pipeline over the same files: the word on what the pixels are."""
    done: dict[tuple[str, torch.dtype], Any] = {}

    def pipeline(name: str, dtype: torch.dtype = torch.float32) -> Any:
        if (name, dtype) not in done:
            done[name, dtype] = plain(tiny_model(name), dtype)
        return done[name, dtype]

    return pipeline


def plain(folder: Path, dtype: torch.dtype = torch.float32) -> Any:
    """diffusers' own pipeline in `folder`."""
    pipeline = diffusers.DiffusionPipeline.from_pretrained(folder, dtype=dtype)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def load(model: str, **more: Any) -> DiffusersRunner:
    """A runner with `model` loaded on the CPU."""
    runner = DiffusersRunner()
    runner.load(ModelConfig(model=model, device="cpu", **more), EngineConfig(), lambda _: None)
    return runner


def planned(seeds: tuple[int, ...] = (5,), index: int = 0, **fields: Any) -> PlannedRequest:
    """A planned request with these fields and one output per seed."""
    request = GenerationRequest(id=f"r{index}", num_outputs=len(seeds), **fields)
    return PlannedRequest(request=request, index=index, seeds=seeds, files=(), fingerprint="")


def run(runner: DiffusersRunner, *requests: PlannedRequest) -> list[Media]:
    """What the runner makes of `requests`."""
    return runner.execute_model(requests, lambda step, total: None, lambda: False)


def levels(media: Media) -> Levels:
    """uint8 [N, H, W, C] or [N, T, H, W, C] of `media`, by our conversion."""
    result: Levels = prepare(media, VideoOutputTransport()).data.numpy()
    return result


def reference(pipeline: Any, seed: int | list[int], **keywords: Any) -> Levels:
    """The same by diffusers: `output_type="np"`, then rounding."""
    seeds = [seed] if isinstance(seed, int) else seed
    generators = [torch.Generator("cpu").manual_seed(s) for s in seeds]
    output = pipeline(**keywords, generator=generators if len(seeds) > 1 else generators[0], output_type="np")
    floats = np.asarray(output.frames if hasattr(output, "frames") else output.images)
    result: Levels = (floats * 255).round().astype("uint8")
    return result
