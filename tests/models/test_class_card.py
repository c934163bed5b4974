"""Cards of classes without a built-in one: what they make, and how large, read from their source."""

import pytest

from omni_cli.config import ModelConfig
from omni_cli.errors import ModelLoadError
from omni_cli.media import Kind
from omni_cli.models.class_card import FALLBACK_FPS, class_card
from omni_cli.models.class_source import class_in_module
from omni_cli.models.class_values import Instance
from omni_cli.models.model_defaults import call_values
from omni_cli.models.registry import card_table, known_card


@pytest.mark.parametrize(
    ("pipeline", "kind"),
    [
        ("StableAudio3Pipeline", Kind.AUDIO),
        ("LongCatAudioDiTPipeline", Kind.AUDIO),
        ("AudioLDM2Pipeline", Kind.AUDIO),
        ("AceStepPipeline", Kind.AUDIO),
        ("Cosmos3OmniPipeline", Kind.VIDEO),
        ("TextToVideoZeroPipeline", Kind.VIDEO),
        ("LTX2DFRPipeline", Kind.VIDEO),
        ("MarigoldDepthPipeline", Kind.IMAGE),
        ("Kandinsky5I2IPipeline", Kind.IMAGE),
        ("AmusedPipeline", Kind.IMAGE),
        ("StableDiffusionXLPAGPipeline", Kind.IMAGE),
        ("StableDiffusionLDM3DPipeline", Kind.IMAGE),
    ],
)
def test_kind_is_read_from_what_the_call_returns(pipeline: str, kind: Kind) -> None:
    card = known_card(pipeline)
    assert card is not None
    assert card.kind is kind
    assert "generator" in card.parameters
    assert pipeline not in card_table().cards


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("def __call__(self, prompt): return SimpleNamespace(images=1, audio=2)", Kind.IMAGE),
        ("def __call__(self, prompt): return SimpleNamespace(waveform=1)", Kind.AUDIO),
        ("def __call__(self, prompt, num_frames=16): return pick(self)", Kind.VIDEO),
        ("def __call__(self, prompt, audio_length_in_s=10.0): return pick(self)", Kind.AUDIO),
        ("def __call__(self, prompt): return pick(self)", Kind.IMAGE),
    ],
)
def test_kind_of_a_class_outside_of_diffusers(body: str, kind: Kind) -> None:
    source = class_in_module(f"class Mine:\n    {body}\n", "Mine")
    instance = Instance("Mine", {}, source=source)
    assert class_card(instance, call_values(instance))["kind"] is kind


def test_rate_is_a_parameter_or_that_of_the_class_s_example() -> None:
    rates = {"LTX2ConditionPipeline": 24.0, "LucyEditPipeline": 24.0, "TextToVideoSDPipeline": FALLBACK_FPS}
    for pipeline, fps in rates.items():
        card = known_card(pipeline)
        assert card is not None
        assert card.defaults.fps == fps


@pytest.mark.parametrize(
    ("pipeline", "words"),
    [
        ("KandinskyV22PriorPipeline", "images, video or sound; use the combined pipeline KandinskyV22CombinedPipeline"),
        ("StableCascadePriorPipeline", "use the combined pipeline StableCascadeCombinedPipeline"),
        ("FluxPriorReduxPipeline", "makes embeddings for another pipeline"),
        ("LLaDA2Pipeline", "LLaDA2Pipeline makes text, not images, video or sound"),
    ],
)
def test_a_class_that_makes_no_media_is_refused_with_what_to_use(pipeline: str, words: str) -> None:
    with pytest.raises(ModelLoadError) as raised:
        known_card(pipeline, ModelConfig(model="owner/name"))
    assert str(raised.value).startswith(f"--model 'owner/name': {pipeline} makes ")
    assert words in str(raised.value)
