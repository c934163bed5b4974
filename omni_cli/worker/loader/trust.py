"""Reject code from outside of diffusers unless the user trusts it."""

from pathlib import Path

from omni_cli.config import ModelConfig, Tuning
from omni_cli.errors import ModelLoadError, UsageError
from omni_cli.models.model_files import custom_pipeline_file, remote_code_class


def check_custom_pipeline(model: ModelConfig) -> None:
    """Raise UsageError if `--custom-pipeline` is not trusted, not a Python file, or does not fit the other settings."""
    if model.custom_pipeline is None:
        return
    if not model.trust_remote_code:
        raise UsageError(
            f"--custom-pipeline {model.custom_pipeline!r} is code that would be run; read it, and if you trust it pass "
            "--trust-remote-code"
        )
    if model.pipeline is not None:
        raise UsageError("--custom-pipeline and --pipeline both name a pipeline class; give one")
    if Path(model.model).suffix == ".safetensors":
        raise UsageError("--custom-pipeline runs a model in a folder or on the hub, not a single file")
    custom_pipeline_file(model.custom_pipeline)


def check_remote_code(folder: Path, model: ModelConfig) -> None:
    """Raise ModelLoadError if the code of a `generate_image` model is not trusted, or if settings need diffusers."""
    if not model.trust_remote_code:
        raise ModelLoadError(
            f"--model {model.model!r} needs code that comes with it: {remote_code_class(folder)}; "
            "read that code, and if you trust it pass --trust-remote-code"
        )
    if model.tuning != Tuning() or model.custom_pipeline is not None or model.pipeline is not None:
        raise ModelLoadError(
            f"--model {model.model!r} is not a diffusers pipeline: leave out --pipeline, --custom-pipeline and the "
            "flags that tune a pipeline's components"
        )
