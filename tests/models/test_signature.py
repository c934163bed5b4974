"""Calls of pipelines, read from the source of the installed diffusers."""

import inspect

import diffusers
import pytest

from omni_cli.models.signature import call_parameters


def test_call_is_read_from_the_class_or_a_base_class():
    for name in ("WanPipeline", "FluxControlPipeline", "StableDiffusionXLPAGPipeline", "KandinskyV22CombinedPipeline"):
        parameters = call_parameters(name)
        assert parameters is not None
        assert list(parameters) == list(inspect.signature(getattr(diffusers, name).__call__).parameters)[1:], name
    wan = call_parameters("WanPipeline")
    assert wan is not None
    assert (wan["num_frames"], wan["callback_on_step_end"]) == ({"int"}, None)
    assert wan["latents"] == {"tensor", "null"}


@pytest.mark.parametrize("name", ["NoSuchPipeline", "DiffusionPipeline", "../evil", "", "torch"])
def test_class_outside_diffusers_is_unknown(name):
    assert call_parameters(name) is None
