"""The flags agree with the settings that they fill in."""

import inspect
from enum import StrEnum
from typing import Any, get_args

import pytest

from omni_cli.cli.options.engine_options import ExecutorChoice
from omni_cli.cli.options.model_options import Cache, Offload
from omni_cli.cli.options.output_options import Encoder, LayoutChoice, Progress, ResultsChoice
from omni_cli.cli.run import run
from omni_cli.cli.run_config import run_config
from omni_cli.config import (
    CacheName,
    EncoderName,
    ExecutorName,
    LayoutName,
    OffloadName,
    ProgressMode,
    ResultsFormat,
    RunConfig,
)


@pytest.mark.parametrize(
    ("choices", "names"),
    [
        (ExecutorChoice, ExecutorName),
        (Cache, CacheName),
        (Offload, OffloadName),
        (Encoder, EncoderName),
        (LayoutChoice, LayoutName),
        (ResultsChoice, ResultsFormat),
        (Progress, ProgressMode),
    ],
)
def test_the_choices_of_a_flag_are_those_of_its_setting(choices: type[StrEnum], names: Any) -> None:
    assert [choice.value for choice in choices] == list(get_args(names))


def test_the_defaults_of_the_flags_are_those_of_the_settings() -> None:
    defaults = {name: parameter.default for name, parameter in inspect.signature(run).parameters.items()}
    assert run_config(defaults) == RunConfig()
