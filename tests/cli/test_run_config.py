"""From command-line parameters to a RunConfig: step mode, previews, tuning, defaults of requests, output transport."""

import inspect
from pathlib import Path
from typing import Any

import pytest

from omni_cli.cli.run import run
from omni_cli.cli.run_config import output_transport, run_config, tuning
from omni_cli.config import Tuning
from omni_cli.errors import UsageError
from tests.cli.conftest import omni_gen

NONE: dict[str, Any] = {
    "scheduler_config": None,
    "cache_config": None,
    "quantization_config": None,
    "component": None,
    "quantize": None,
}


def step_settings(**flags: Any) -> tuple[bool, bool, int, bool]:
    """Return step execution, async output, preview every, keep previews."""
    defaults = {name: parameter.default for name, parameter in inspect.signature(run).parameters.items()}
    config = run_config({**defaults, **flags})
    engine = config.engine
    return engine.step_execution, engine.async_output, engine.preview_every, config.output.keep_previews


def test_stream_turns_step_execution_on_and_shows_every_step() -> None:
    assert step_settings() == (False, True, 0, False)
    assert step_settings(step_execution=True, async_output=False) == (True, False, 0, False)
    assert step_settings(stream=True) == (True, True, 1, False)
    assert step_settings(stream=True, preview_every=4, keep_previews=True) == (True, True, 4, True)
    assert step_settings(preview_every=4) == (False, True, 4, False)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"keep_previews": True}, "--keep-previews: there are no previews to keep; add --preview-every K"),
        (
            {"step_execution": True, "async_output": False, "workers": "2"},
            "--workers 2: --step-execution with --no-async",
        ),
    ],
)
def test_contradicting_flags_are_refused(flags: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        step_settings(**flags)


@pytest.mark.parametrize(("text", "workers"), [("auto", "auto"), ("1", 1), ("8", 8)])
def test_workers_are_a_number_or_auto(text: str, workers: int | str) -> None:
    defaults = {name: parameter.default for name, parameter in inspect.signature(run).parameters.items()}
    assert run_config(defaults).engine.workers == "auto"
    assert run_config({**defaults, "workers": text}).engine.workers == workers


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "all", "", "99999", "\u0662"])
def test_workers_that_are_no_number_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"--workers .*: must be a number from 1 to 1024, or auto"):
        step_settings(workers=text)


def test_tuning_flags_become_a_tuning() -> None:
    parameters = NONE | {
        "scheduler": "UniPCMultistepScheduler",
        "scheduler_config": '{"use_karras_sigmas": true}',
        "cache": "first-block",
        "component": ["transformer=a=b.gguf"],
        "quantization": "quanto",
        "quantize": "transformer, text_encoder",
        "offload": "group",
    }
    assert tuning(parameters) == Tuning(
        scheduler="UniPCMultistepScheduler",
        scheduler_config={"use_karras_sigmas": True},
        cache="first-block",
        components={"transformer": "a=b.gguf"},
        quantization="quanto",
        quantize=("transformer", "text_encoder"),
        offload="group",
    )
    assert tuning(NONE) == Tuning()


def test_every_wrong_tuning_flag_is_reported_at_once() -> None:
    parameters = NONE | {
        "scheduler_config": "{",
        "cache_config": "[1]",
        "component": ["transformer", "vae=a.gguf", "vae=b.gguf"],
    }
    with pytest.raises(UsageError) as caught:
        tuning(parameters)
    lines = str(caught.value).splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "--scheduler-config",
        "--cache-config",
        "--component transformer",
        "--component vae=b.gguf",
    ]


def test_every_wrong_default_is_reported_at_once() -> None:
    result = omni_gen("run", "-", "--height", "0", "--fps", "-1", "--format", "mpeg", input='{"prompt": "x"}\n')
    assert result.returncode == 2
    assert [line.split(":")[-2].strip() for line in result.stderr.splitlines()] == ["--height", "--fps", "--format"]


def test_the_flag_overrides_the_json_text_and_the_text_the_deploy_file(tmp_path: Path) -> None:
    deploy = tmp_path / "deploy.yaml"
    deploy.write_text("stages:\n  - stage_id: 0\n    video_output_transport: {enable_device_postprocess: false}\n")
    on, off = '{"enable_device_postprocess": true}', '{"enable_device_postprocess": false}'
    assert output_transport(None, None, None).enable_device_postprocess
    assert not output_transport(None, None, deploy).enable_device_postprocess
    assert output_transport(None, on, deploy).enable_device_postprocess
    assert output_transport(True, off, deploy).enable_device_postprocess
