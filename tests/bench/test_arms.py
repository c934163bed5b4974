"""Selection of arms and their settings."""

from pathlib import Path

import pytest

from omni_cli.bench.arms import arm_config, select_arms
from omni_cli.config import EngineConfig, RunConfig
from omni_cli.errors import UsageError


def names(text: str | None, batch_size: int = 1) -> list[str]:
    return [spec.name for spec in select_arms(text, batch_size)]


def test_default_arms_are_the_plain_loop_and_the_engine_with_and_without_async() -> None:
    assert names(None) == ["plain", "no-async", "async"]
    assert names(None, 8) == ["plain", "no-async", "async", "no-async-batch", "async-batch"]


def test_arms_are_selected_in_their_order_and_once() -> None:
    assert names("async, plain,async-float,async") == ["async", "plain", "async-float"]


@pytest.mark.parametrize(
    ("text", "message"),
    [("async,fast", "'fast'"), ("async-batch", "--batch-size"), ("plain", "at least one"), (",", "at least one")],
)
def test_arms_that_cannot_run_are_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        select_arms(text, 1)


def test_each_arm_changes_the_setting_in_its_name() -> None:
    base = RunConfig(engine=EngineConfig(batch_size=8))
    configs = {
        spec.name: arm_config(spec, base, Path("out"))
        for spec in select_arms("async,no-async,async-batch,async-float,async-whole", 8)
    }
    engines = {name: config.engine for name, config in configs.items()}
    assert [engine.async_output for engine in engines.values()] == [True, False, True, True, True]
    assert [engine.batch_size for engine in engines.values()] == [1, 1, 8, 1, 1]
    assert [engine.transport.enable_device_postprocess for engine in engines.values()] == [
        True,
        True,
        True,
        False,
        True,
    ]
    assert [engine.chunked_decode for engine in engines.values()] == [True, True, True, True, False]
    assert all(config.output.overwrite and config.output.output_dir == "out" for config in configs.values())
