"""Weights in prompts change the picture as compel's embeddings do, and without weights nothing changes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from omni_cli.worker.pipeline.prompt_embeds_cache import PromptEmbedsCache
from omni_cli.worker.pipeline.weighted_prompts import WeightedPrompts
from tests.factories import planned
from tests.worker.conftest import levels, run

pytest.importorskip("compel")
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

SMALL: dict[str, Any] = {"height": 32, "width": 64, "num_inference_steps": 2}
WEIGHTED = {**SMALL, "prompt_weighting": "a1111"}
LONG = "a red circle over a blue square, " * 12


def render(runner: Any, prompt: str, **fields: Any) -> Any:
    return levels(run(runner, planned(prompt=prompt, **fields))[0]).astype(int)


@pytest.mark.parametrize("name", ["stable_diffusion", "stable_diffusion_xl"])
def test_weights_change_the_picture_and_weights_of_one_do_not(name: str, runner_of: Callable[..., Any]) -> None:
    runner = runner_of(name)
    text = "a red circle (c++, blue-green)"
    plain = render(runner, text, **SMALL)
    np.testing.assert_array_equal(render(runner, "a (red:1) circle \\(c++, blue-green\\)", **WEIGHTED), plain)
    strong = render(runner, "a (red:1.8) circle \\(c++, blue-green\\)", **WEIGHTED)
    weak = render(runner, "a (red:0.3) circle \\(c++, blue-green\\)", **WEIGHTED)
    assert min(np.abs(strong - plain).mean(), np.abs(weak - plain).mean(), np.abs(strong - weak).mean()) > 0.1
    negative = {**WEIGHTED, "negative_prompt": "(dark:1.8) blur"}
    unweighted = render(runner, "a red circle", **SMALL, negative_prompt="dark blur")
    assert np.abs(render(runner, "a red circle", **negative) - unweighted).mean() > 0.1
    np.testing.assert_array_equal(
        render(runner, "a red circle", **WEIGHTED, negative_prompt="(dark:1) blur"), unweighted
    )


@pytest.mark.parametrize("name", ["stable_diffusion", "stable_diffusion_xl"])
@torch.inference_mode()
def test_only_the_words_with_a_weight_move_away_from_the_empty_text(name: str, runner_of: Callable[..., Any]) -> None:
    runner = runner_of(name)
    prompts = WeightedPrompts(runner._model.pipeline, torch.float32, PromptEmbedsCache(2**20))

    def embeds(text: str) -> torch.Tensor:
        tensor: torch.Tensor = prompts.replace_texts({"prompt": text}, 1)["prompt_embeds"][0]
        return tensor

    plain, empty = embeds("a red circle"), embeds("")
    for text, weight in [("a (red:1.5) circle", 1.5), ("a (red) circle", 1.1), ("a ((red):2) circle", 2.2)]:
        moved = embeds(text)
        changed = (moved != plain).any(dim=-1).nonzero().flatten()
        assert 0 < len(changed) <= 5  # the tokens of "red"
        expected = empty[changed] + weight * (plain[changed] - empty[changed])
        torch.testing.assert_close(moved[changed], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["stable_diffusion", "stable_diffusion_xl"])
@pytest.mark.parametrize("negative", [None, "dark", LONG * 2])
def test_a_text_longer_than_the_encoder_reads_has_its_effect_to_its_end_without_a_note(
    name: str, negative: str | None, runner_of: Callable[..., Any]
) -> None:
    fields = {**WEIGHTED, "negative_prompt": negative}
    medias = [run(runner_of(name), planned(prompt=text, **fields))[0] for text in (LONG + "red", LONG + "(red:1.5)")]
    assert [media.notes for media in medias] == [(), ()]
    assert (levels(medias[0]) != levels(medias[1])).any()


def test_a_negative_prompt_that_is_not_given_is_as_long_as_the_prompt(runner_of: Callable[..., Any]) -> None:
    runner = runner_of("stable_diffusion_xl")
    pipeline = runner._model.pipeline
    prompts = WeightedPrompts(pipeline, torch.float32, PromptEmbedsCache(0))
    zeros = pipeline.config.force_zeros_for_empty_prompt
    try:
        for forced, names in [(True, {"prompt_embeds"}), (False, {"prompt_embeds", "negative_prompt_embeds"})]:
            pipeline.register_to_config(force_zeros_for_empty_prompt=forced)
            with torch.inference_mode():
                found = prompts.replace_texts({"prompt": LONG}, 2)
            assert names == {name for name in found if "pooled" not in name}
            assert len({tuple(found[name].shape) for name in names}) == 1
            assert {len(tensor) for tensor in found.values()} == {2}
    finally:
        pipeline.register_to_config(force_zeros_for_empty_prompt=zeros)


@pytest.mark.parametrize("name", ["stable_diffusion", "stable_diffusion_xl"])
def test_the_samples_of_a_call_equal_those_rendered_alone(name: str, runner_of: Callable[..., Any]) -> None:
    runner = runner_of(name)
    fields = {**WEIGHTED, "prompt": "a (red:1.5) circle", "negative_prompt": "[dark]"}
    batch = [planned(index=index, seeds=(index,), batch_key="k", **fields) for index in range(3)]
    together = [levels(media)[0].astype(int) for media in run(runner, *batch)]
    alone = [levels(run(runner, planned(seeds=(index,), **fields))[0])[0].astype(int) for index in range(3)]
    assert max(np.abs(one - other).max() for one, other in zip(together, alone, strict=True)) <= 1
    assert np.abs(together[0] - together[1]).mean() > 1
