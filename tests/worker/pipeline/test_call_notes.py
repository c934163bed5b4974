"""Notes of the rows on prompts that are cut, blackened pictures, guidance without effect, and other warnings."""

import logging
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import pytest

from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.notes import MAX_NOTES
from omni_cli.worker.pipeline.call_notes import nsfw_flags, nsfw_note
from omni_cli.worker.runner import DiffusersRunner
from tests.factories import planned
from tests.worker.conftest import levels, load, plain, reference, run

SMALL: dict[str, Any] = {"height": 32, "width": 64, "num_inference_steps": 2}
LONG = "a cat " * 400 + "with a hat"
HOSTILE = "\u202e\x1b[2J\ud83d " * 700
"""The tiny tokenizers have one token per byte, so these exceed every limit."""


@pytest.fixture
def fresh(tiny_model: Callable[[str], Path]) -> Iterator[Callable[..., DiffusersRunner]]:
    """Return a function that loads a tiny pipeline that no other test has called."""
    runners: list[DiffusersRunner] = []

    def of(name: str, **engine: Any) -> DiffusersRunner:
        runner = DiffusersRunner()
        runners.append(runner)
        model = ModelConfig(model=str(tiny_model(name)), device="cpu", dtype="float32")
        runner.load(model, EngineConfig(**engine), lambda _: None)
        return runner

    yield of
    for runner in runners:
        runner.close()


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("stable_diffusion", {"text_encoder": "77 of 2412"}),
        ("stable_diffusion_xl", {"text_encoder": "77 of 2412", "text_encoder_2": "77 of 2412"}),
        ("flux", {"text_encoder": "77 of 2412", "text_encoder_2": "512 of 2411"}),
        ("wan", {"text_encoder": "512 of 2411"}),
        ("qwen_image", {"text_encoder": "512 of 2410"}),
        ("flux_2_klein", {"text_encoder": "512 of 2411"}),
    ],
)
def test_a_prompt_beyond_the_limit_is_noted_per_text_encoder(
    name: str, sizes: dict[str, str], runner_of: Callable[..., DiffusersRunner]
) -> None:
    for _ in range(2):  # the second time, the embeddings come from the cache
        (media,) = run(runner_of(name), planned(prompt=LONG, **SMALL))
        notes = [note for note in media.notes if note.startswith("prompt is cut: ")]
        assert len(notes) == len(sizes)
        for encoder, size in sizes.items():
            (note,) = (note for note in notes if note.startswith(f"prompt is cut: {encoder} reads "))
            assert f" {size} tokens" in note
        assert not any("truncated" in note or "Token indices" in note for note in media.notes)
    (media,) = run(runner_of(name), planned(prompt="a cat", **SMALL))
    assert not any("is cut" in note for note in media.notes)


@pytest.mark.parametrize(("length", "is_cut"), [(75, False), (76, True)])
@pytest.mark.parametrize("cache", [0, 1 << 20])
def test_the_limit_is_exact_with_and_without_the_cache_of_embeddings(
    length: int, is_cut: bool, cache: int, fresh: Callable[..., DiffusersRunner]
) -> None:
    runner = fresh("stable_diffusion", prompt_cache_bytes=cache)
    for _ in range(2):
        (media,) = run(runner, planned(prompt="x" * (length - 1) + "Z", **SMALL))
        expected = 'prompt is cut: text_encoder reads 77 of 78 tokens, the rest has no effect there: "Z"'
        assert media.notes == ((expected,) if is_cut else ())


def test_embeddings_that_the_pipeline_cuts_after_encoding_are_noted(runner_of: Callable[..., DiffusersRunner]) -> None:
    (media,) = run(runner_of("qwen_image"), planned(prompt="x" * 700, **SMALL, negative_prompt="y"))
    note = f'prompt is cut: text_encoder reads 512 of 700 tokens, the rest has no effect there: "{"x" * 60}…"'
    assert media.notes[0].startswith(note[:90])


@pytest.mark.parametrize("name", ["sana", "stable_diffusion"])
def test_a_text_that_is_only_counted_is_not_noted(name: str, fresh: Callable[..., DiffusersRunner]) -> None:
    """Sana counts the tokens of its instruction, which are more than its tokenizer's limit, but not those of a call."""
    (media,) = run(fresh(name), planned(prompt="a", **SMALL))
    assert not any("Token indices" in note for note in media.notes)


def test_max_sequence_length_of_the_request_is_the_limit(runner_of: Callable[..., DiffusersRunner]) -> None:
    request = planned(prompt="x" * 60, extra={"max_sequence_length": 32}, **SMALL)
    (media,) = run(runner_of("flux"), request)
    assert [note[:52] for note in media.notes] == ["prompt is cut: text_encoder_2 reads 32 of 61 tokens,"]


def test_in_a_batch_only_the_request_whose_text_is_cut_has_the_note(runner_of: Callable[..., DiffusersRunner]) -> None:
    texts = [("a", None), (LONG, "a"), ("a cat", LONG + " and more")]
    fields = {"batch_key": "k", "guidance_scale": 5.0, **SMALL}
    requests = [
        planned(index=index, seeds=(1, 2), prompt=prompt, negative_prompt=negative or "", **fields)
        for index, (prompt, negative) in enumerate(texts)
    ]
    notes = [media.notes for media in run(runner_of("stable_diffusion"), *requests)]
    assert [[note.partition(" is cut")[0] for note in found] for found in notes] == [
        [],
        ["prompt"],
        ["negative_prompt"],
    ]


@pytest.mark.parametrize("field", ["prompt", "negative_prompt"])
def test_a_hostile_text_is_quoted_safely(field: str, runner_of: Callable[..., DiffusersRunner]) -> None:
    text = HOSTILE.replace("\ud83d", "\u2028")
    request = planned(**{"prompt": "a cat", "guidance_scale": 5.0, field: text}, **SMALL)
    (media,) = run(runner_of("stable_diffusion"), request)
    (note,) = media.notes
    assert note.isprintable()
    assert note.startswith(f"{field} is cut: ")


def test_pixels_are_those_of_the_plain_pipeline(
    runner_of: Callable[..., DiffusersRunner], tiny_model: Callable[[str], Path]
) -> None:
    (media,) = run(runner_of("flux"), planned(prompt=LONG, seeds=(3,), **SMALL))
    assert np.array_equal(levels(media), reference(plain(tiny_model("flux")), 3, prompt=LONG, **SMALL))


def test_blackened_samples_are_noted(runner_of: Callable[..., DiffusersRunner]) -> None:
    (media,) = run(runner_of("blackening"), planned(prompt="a", **SMALL))
    note = "blackened: the safety checker of the pipeline took it for NSFW content"
    assert (media.notes, media.nsfw) == ((note,), note)
    (media,) = run(runner_of("blackening"), planned(prompt="a", seeds=(1, 2), batch_key="k", **SMALL))
    assert "samples 0, 1 of 2" in media.nsfw


@pytest.mark.parametrize(
    ("flags", "words"), [((False, False), ""), ((False, True), "sample 1 of 2"), ((True, True, False), "0, 1 of 3")]
)
def test_the_blackened_samples_are_named(flags: tuple[bool, ...], words: str) -> None:
    assert words in nsfw_note(flags)
    assert bool(nsfw_note(flags)) is any(flags)


@pytest.mark.parametrize(
    ("fields", "flags"),
    [
        ({"nsfw_content_detected": [True, False]}, (True, False)),
        ({"nsfw_detected": [False, True]}, (False, True)),
        ({"nsfw_content_detected": None}, (False, False)),
        ({"nsfw_content_detected": [None, None]}, (False, False)),
        ({}, (False, False)),
    ],
)
def test_flags_are_read_from_every_output_class(fields: dict[str, Any], flags: tuple[bool, ...]) -> None:
    assert nsfw_flags(diffusers.utils.BaseOutput(images=[1], **fields), 2) == flags


@pytest.mark.parametrize(
    ("name", "fields", "note"),
    [
        ("stable_diffusion", {"negative_prompt": "dull", "guidance_scale": 1.0}, "negative_prompt has no effect"),
        ("stable_diffusion", {"negative_prompt": "dull", "guidance_scale": 5.0}, None),
        ("stable_diffusion", {"guidance_scale": 1.0}, None),
        ("flux", {"negative_prompt": "dull"}, "negative_prompt has no effect: true_cfg_scale is 1"),
        ("flux", {"negative_prompt": "dull", "true_cfg_scale": 2.0}, None),
        ("flux", {"true_cfg_scale": 2.0}, "true_cfg_scale 2 has no effect without a negative_prompt"),
        ("flux", {"guidance_scale": 2.0}, None),
        ("qwen_image", {}, "diffusers: true_cfg_scale is passed as 4.0"),
        (
            "qwen_image",
            {"guidance_scale": 2.0, "negative_prompt": "dull"},
            "diffusers: guidance_scale is passed as 2.0",
        ),
    ],
)
def test_guidance_without_effect_is_noted_once(
    name: str, fields: dict[str, Any], note: str | None, runner_of: Callable[..., DiffusersRunner]
) -> None:
    (media,) = run(runner_of(name), planned(prompt="a", **SMALL, **fields))
    assert len(media.notes) == (note is not None)
    assert note is None or media.notes[0].startswith(note)


def test_guidance_of_a_distilled_model_is_noted(fresh: Callable[..., DiffusersRunner]) -> None:
    runner = fresh("flux")
    pipeline = runner._model.pipeline
    config = {**pipeline.transformer.config, "guidance_embeds": False}
    pipeline.transformer = diffusers.FluxTransformer2DModel.from_config(config).eval()
    (media,) = run(runner, planned(prompt="a", guidance_scale=3.5, **SMALL))
    assert media.notes == ("guidance_scale 3.5 has no effect: this model is distilled without guidance",)
    assert run(runner, planned(prompt="a", **SMALL))[0].notes == ()


def test_other_warnings_of_a_call_are_noted_on_all_its_requests_once(fresh: Callable[..., DiffusersRunner]) -> None:
    runner = fresh("flux")
    pipeline = runner._model.pipeline
    library = logging.getLogger(type(pipeline).__module__)

    def warn(module: Any, inputs: Any) -> None:
        library.warning("something\nodd")
        warnings.warn("overflow", RuntimeWarning, stacklevel=1)

    handle = pipeline.transformer.register_forward_pre_hook(warn)
    requests = [planned(index=index, prompt="a", batch_key="k", **SMALL) for index in range(2)]
    assert [media.notes for media in run(runner, *requests)] == [
        ("diffusers: something odd", "RuntimeWarning: overflow")
    ] * 2
    handle.remove()
    assert run(runner, requests[0])[0].notes == (), "a warning belongs to its own call"


def test_notes_are_limited_in_number(fresh: Callable[..., DiffusersRunner]) -> None:
    runner = fresh("flux")
    library = logging.getLogger("diffusers")
    runner._model.pipeline.transformer.register_forward_pre_hook(
        lambda module, inputs: [library.warning("w" * index) for index in range(5000)] and None
    )
    (media,) = run(runner, planned(prompt="a", **SMALL))
    assert len(media.notes) == MAX_NOTES + 1
    assert "further notes are left out" in media.notes[-1]


def test_warnings_of_loading_are_one_warning_of_the_worker(
    tiny_model: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    original = diffusers.DiffusionPipeline.from_pretrained

    def warning_load(*args: Any, **keywords: Any) -> Any:
        for text in ("the safety checker is off", "an odd file", "an odd file"):
            logging.getLogger("diffusers.pipelines").warning(text)
        return original(*args, **keywords)

    monkeypatch.setattr(diffusers.DiffusionPipeline, "from_pretrained", warning_load)
    folder = str(tiny_model("ddim"))
    with caplog.at_level(logging.WARNING, "omni_gen"):
        load(folder).close()
    (record,) = (record for record in caplog.records if record.name == "omni_gen")
    expected = f"loading {folder}: diffusers: the safety checker is off; diffusers: an odd file"
    assert record.getMessage().startswith(expected)
