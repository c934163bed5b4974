"""Settings are data; the one that comes from the environment is taken only if it can be meant."""

import logging

import msgspec
import pytest

from omni_cli.config import OUTPUT_TIMEOUT_VARIABLE, EngineConfig, RunConfig, output_timeout


def test_the_output_wait_is_600_seconds_unless_somebody_says_otherwise(caplog: pytest.LogCaptureFixture) -> None:
    assert OUTPUT_TIMEOUT_VARIABLE == "VLLM_OMNI_ASYNC_OUTPUT_TIMEOUT"
    assert output_timeout({}) == EngineConfig().output_timeout == 600.0
    assert caplog.text == ""


@pytest.mark.parametrize(("text", "seconds"), [("5", 5.0), ("0.25", 0.25), (" 30 ", 30.0), ("1e3", 1000.0)])
def test_a_positive_number_of_seconds_is_taken(text: str, seconds: float, caplog: pytest.LogCaptureFixture) -> None:
    assert output_timeout({OUTPUT_TIMEOUT_VARIABLE: text}) == seconds
    assert caplog.text == ""


@pytest.mark.parametrize("text", ["", "soon", "0", "-1", "nan", "inf", "-inf", "10s", "1,5", "0x10", "\x1b[31m5"])
def test_anything_else_is_ignored_with_one_warning_that_names_it(text: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "omni_gen"):
        assert output_timeout({OUTPUT_TIMEOUT_VARIABLE: text}) == 600.0
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert f"VLLM_OMNI_ASYNC_OUTPUT_TIMEOUT={text!r}" in record.getMessage()
    assert "using 600" in record.getMessage()


def test_settings_cross_to_a_worker_and_come_back_equal() -> None:
    config = RunConfig(engine=EngineConfig(forward_timeout=2.5, threads=3))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(config), type=RunConfig) == config


def test_settings_are_never_changed() -> None:
    with pytest.raises(AttributeError):
        RunConfig().engine.workers = 2  # type: ignore[misc]
