"""The arm of the plain loop."""

from pathlib import Path

import pytest

from omni_cli.bench.arms import ARM_SPECS
from omni_cli.bench.plain_arm import PlainArm
from omni_cli.config import ModelConfig
from omni_cli.errors import EngineError
from omni_cli.executor.worker_handle import KEEP_MEMORY
from tests.bench.conftest import open_engine


def test_a_plain_loop_that_cannot_load_raises_with_its_log(tmp_path: Path) -> None:
    with open_engine(tmp_path, "async") as engine:
        engine.load()
        model = ModelConfig(model=str(tmp_path / "no-such-model"), device="cpu")
        with (
            PlainArm.open(ARM_SPECS["plain"], model, tmp_path / "plain", engine.plan, lambda: engine.card) as plain,
            pytest.raises(EngineError, match=r"(?s)plain loop exited with code 1.*no such folder or file"),
        ):
            plain.load()


def test_the_tuned_loop_has_the_allocator_of_the_engine(tmp_path: Path) -> None:
    with open_engine(tmp_path, "async") as engine:
        engine.load()
        spec, model = ARM_SPECS["plain-tuned"], ModelConfig(device="cpu")
        with PlainArm.open(spec, model, tmp_path / "plain", engine.plan, lambda: engine.card) as plain:
            assert plain.load().pipeline == "WanPipeline"
            assert plain._process is not None
            environment = Path(f"/proc/{plain._process.pid}/environ").read_bytes().split(b"\0")
    assert {f"{name}={value}".encode() for name, value in KEEP_MEMORY.items()} <= set(environment)
