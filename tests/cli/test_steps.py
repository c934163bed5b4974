"""The flags of step mode and previews: what they come to, and which do not go together."""

import inspect
from typing import Any

import pytest

from omni_cli.cli.run import run
from omni_cli.cli.settings import run_config
from omni_cli.errors import UsageError


def settings(**flags: Any) -> tuple[bool, bool, int, bool]:
    """Step execution, async output, preview every, keep previews."""
    defaults = {name: parameter.default for name, parameter in inspect.signature(run).parameters.items()}
    config = run_config({**defaults, **flags})
    engine = config.engine
    return engine.step_execution, engine.async_output, engine.preview_every, config.output.keep_previews


def test_stream_turns_step_execution_on_and_shows_every_step() -> None:
    assert settings() == (False, True, 0, False)
    assert settings(step_execution=True, async_output=False) == (True, False, 0, False)
    assert settings(stream=True) == (True, True, 1, False)
    assert settings(stream=True, preview_every=4, keep_previews=True) == (True, True, 4, True)
    assert settings(preview_every=4) == (False, True, 4, False)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"keep_previews": True}, "--keep-previews keeps nothing without --preview-every K"),
        (
            {"step_execution": True, "async_output": False, "workers": 2},
            "--workers 2: --step-execution with --no-async",
        ),
    ],
)
def test_flags_that_do_not_go_together_are_told(flags: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        settings(**flags)
