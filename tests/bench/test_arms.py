"""Which arms there are, and what sets them apart."""

from pathlib import Path

import pytest

from omni_cli.bench.arms import chosen, config_of
from omni_cli.config import EngineConfig, RunConfig
from omni_cli.errors import UsageError


def names(text: str | None, batch_size: int = 1) -> list[str]:
    return [spec.name for spec in chosen(text, batch_size)]


def test_without_a_word_the_plain_loop_and_both_ways_of_the_engine_run() -> None:
    assert names(None) == ["plain", "no-async", "async"]
    assert names(None, 8) == ["plain", "no-async", "async", "no-async-batch", "async-batch"]


def test_arms_are_taken_in_the_order_given_and_once() -> None:
    assert names("async, plain,async-float,async") == ["async", "plain", "async-float"]


@pytest.mark.parametrize(
    ("text", "said"),
    [("async,fast", "'fast'"), ("async-batch", "--batch-size"), ("plain", "at least one"), (",", "at least one")],
)
def test_arms_that_cannot_run_are_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        chosen(text, 1)


def test_each_arm_differs_in_what_its_name_says() -> None:
    base = RunConfig(engine=EngineConfig(batch_size=8))
    found = {
        spec.name: config_of(spec, base, Path("out"))
        for spec in chosen("async,no-async,async-batch,async-float,async-whole", 8)
    }
    engines = {name: config.engine for name, config in found.items()}
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
    assert all(config.output.overwrite and config.output.output_dir == "out" for config in found.values())
