"""Fixtures of the loader's tests."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest

from omni_cli.config import ModelConfig
from omni_cli.worker.loader import LoadedPipeline, load

Tiny = Callable[[str], Path]


def load_quietly(model: str, **more: Any) -> LoadedPipeline:
    return load(ModelConfig(model=model, device=more.pop("device", "cpu"), **more), lambda _: None)


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)


@pytest.fixture
def copy_of(tiny_model: Tiny, tmp_path: Path) -> Callable[[str], Path]:
    """Return a function that copies a tiny model into the test's folder, where it may be changed."""
    return lambda name: Path(shutil.copytree(tiny_model(name), tmp_path / name))


def edit_index(folder: Path, **changes: Any) -> None:
    path = folder / "model_index.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
