"""The tuning flags: from texts to settings, all mistakes at once."""

from typing import Any

import pytest

from omni_cli.cli.tuning import adapters, tuning
from omni_cli.config import Tuning
from omni_cli.errors import UsageError
from omni_cli.request import Adapter

NONE: dict[str, Any] = {
    "scheduler_config": None,
    "cache_config": None,
    "quantization_config": None,
    "component": None,
    "quantize": None,
}


def test_texts_become_settings() -> None:
    given = NONE | {
        "scheduler": "UniPCMultistepScheduler",
        "scheduler_config": '{"use_karras_sigmas": true}',
        "cache": "first-block",
        "component": ["transformer=a=b.gguf"],
        "quantization": "quanto",
        "quantize": "transformer, text_encoder",
        "offload": "group",
    }
    assert tuning(given) == Tuning(
        scheduler="UniPCMultistepScheduler",
        scheduler_config={"use_karras_sigmas": True},
        cache="first-block",
        components={"transformer": "a=b.gguf"},
        quantization="quanto",
        quantize=("transformer", "text_encoder"),
        offload="group",
    )
    assert tuning(NONE) == Tuning()


def test_all_that_is_wrong_is_told_at_once() -> None:
    given = NONE | {
        "scheduler_config": "{",
        "cache_config": "[1]",
        "component": ["transformer", "vae=a.gguf", "vae=b.gguf"],
    }
    with pytest.raises(UsageError) as caught:
        tuning(given)
    lines = str(caught.value).splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "--scheduler-config",
        "--cache-config",
        "--component transformer",
        "--component vae=b.gguf",
    ]


@pytest.mark.parametrize(
    ("text", "adapter"),
    [
        ("a.safetensors", Adapter(path="a.safetensors")),
        ("a.safetensors:0.8", Adapter(path="a.safetensors", weight=0.8)),
        ("owner/name:-1", Adapter(path="owner/name", weight=-1.0)),
    ],
)
def test_a_lora_has_a_weight_behind_a_colon(text: str, adapter: Adapter) -> None:
    assert adapters([text]) == [adapter]


@pytest.mark.parametrize("text", ["a.safetensors:x", ":1", "a:nan", "a:"])
def test_a_lora_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--lora"):
        adapters([text])


def test_none_given_is_none_said() -> None:
    assert adapters(None) is None
    assert adapters([]) is None
