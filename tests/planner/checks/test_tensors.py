"""Checks of embeddings and latents against the pipeline."""

import msgspec
import numpy as np
import pytest
import torch
from safetensors.torch import save_file


@pytest.fixture
def check(planner, ask, card, tmp_path):
    """check(tensors={name: shape}, ...) gives the problems of a request with these embeddings."""
    parameters = (
        *card.parameters,
        "latents",
        "prompt_embeds",
        "negative_prompt_embeds",
        "pooled_prompt_embeds",
        "mu_map",
    )
    one = planner(card=msgspec.structs.replace(card, parameters=parameters))
    count = iter(range(100))

    def problems(tensors=None, latents=None, **fields) -> list[str]:
        index = next(count)
        if tensors is not None:
            save_file({name: torch.zeros(shape) for name, shape in tensors.items()}, tmp_path / f"{index}.safetensors")
            fields = {"prompt": None, "prompt_embeds": f"{index}.safetensors", **fields}
        if latents is not None:
            np.save(tmp_path / f"{index}.npy", np.zeros(latents, np.float32))
            fields["latents"] = f"{index}.npy"
        return [str(p).partition(":7: ")[2] for p in one.check(ask(index, **fields))]

    return problems


def test_tensors_that_the_pipeline_takes_pass(check):
    assert check({"prompt_embeds": (1, 4, 8), "pooled_prompt_embeds": (1, 8)}) == []
    assert check({"negative_prompt_embeds": (1, 4, 8)}, prompt="x") == []
    assert check(latents=(1, 4, 2, 2)) == []
    assert check(latents=(3, 4, 2, 2), num_outputs=3) == []


def test_wrong_names_shapes_and_texts_are_problems(check):
    assert check({"prompt_embed": (1, 4, 8), "prompt_embeds": (1, 4, 8)}) == [
        'prompt_embeds: WanPipeline takes no tensor "prompt_embed"; did you mean "prompt_embeds"?'
    ]
    assert check({"prompt_embeds": (1, 4, 8), "height": (1, 1)}) == [
        'prompt_embeds: WanPipeline takes no tensor "height"; name tensors as the pipeline names its keywords'
    ]
    assert check({"prompt_embeds": (4, 8)}) == [
        "prompt_embeds: prompt_embeds has shape [4, 8]; "
        "the first axis is the batch, and a request is one sample: [1, ...]"
    ]
    assert check({"prompt_embeds": (1, 4, 8)}, prompt="x") == [
        "prompt: is given as text and as prompt_embeds; keep one"
    ]
    assert check({"pooled_prompt_embeds": (1, 8)}) == [
        "prompt_embeds: holds no prompt_embeds, and there is no prompt; add one of them"
    ]


def test_latents_hold_one_sample_or_one_per_output(check):
    assert check(latents=(2, 4, 2, 2)) == ["latents: have shape [2, 4, 2, 2]; the first axis is the batch: 1"]
    assert check(latents=(2, 4, 2, 2), num_outputs=3) == [
        "latents: have shape [2, 4, 2, 2]; the first axis is the batch: 1 or 3"
    ]
    assert check(latents=(4,)) == ["latents: have shape [4]; the first axis is the batch: 1"]


def test_file_of_several_tensors_must_name_the_keyword(check, tmp_path):
    save_file({"a": torch.zeros(1, 2), "b": torch.zeros(1, 2)}, tmp_path / "two.safetensors")
    save_file({"a": torch.zeros(1, 2), "mu_map": torch.zeros(1, 2)}, tmp_path / "named.safetensors")
    (problem,) = check(extra={"mu_map": {"tensor": "two.safetensors"}})
    assert problem.endswith('two.safetensors" holds 2 tensors and none is named mu_map; keep one, or name it mu_map')
    assert check(extra={"mu_map": {"tensor": "named.safetensors"}}) == []
