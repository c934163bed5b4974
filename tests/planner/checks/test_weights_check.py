"""Weights in prompts are checked before a model is loaded."""

import msgspec
import pytest

from omni_cli.planner.checks import weights_check


@pytest.fixture
def check(planner, ask, image_card):
    """check(pipeline, ...) gives the problems of a request whose texts have weights."""

    def problems(pipeline="StableDiffusionXLImg2ImgPipeline", **fields) -> list[str]:
        card = msgspec.structs.replace(image_card, pipeline=pipeline, parameters=())
        one = planner(card=card)
        row = ask(0, **{"prompt": "a (red:1.3) circle", "prompt_weighting": "a1111", **fields})
        return [str(p).partition(":7: ")[2] for p in one.check(row)]

    return problems


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"prompt": "a (red"}, "prompt: a ( that is not closed (character 3)"),
        ({"negative_prompt": "a) b"}, "negative_prompt: a ) without its bracket (character 2)"),
        ({"negative_prompt": "(a:-1)"}, "negative_prompt: holds a weight below 0"),
        ({"extra": {"clip_skip": 1}}, "extra: clip_skip has no effect beside weights in prompts"),
        ({"pipeline": "FluxPipeline"}, 'prompt_weighting: FluxPipeline cannot apply the weight in "(red:1.3)"'),
        ({"pipeline": "StableDiffusion3Pipeline"}, "prompt_weighting: StableDiffusion3Pipeline cannot"),
    ],
)
def test_what_keeps_weights_from_being_applied_is_told(check, fields, message):
    (problem,) = check(**fields)
    assert problem.startswith(message)


@pytest.mark.parametrize(
    "name", ["StableDiffusion", "StableDiffusionXLPAGInpaint", "StableDiffusionControlNet", "AnimateDiff"]
)
def test_pipelines_of_clip_encoders_apply_weights(check, name, monkeypatch):
    monkeypatch.setattr(weights_check, "compel_version", lambda: "2.5.1")
    assert check(f"{name}Pipeline") == []


def test_weights_need_compel(check, monkeypatch):
    monkeypatch.setattr(weights_check, "compel_version", lambda: "2.5.1")
    assert check() == []
    assert check("FluxPipeline", prompt="a", prompt_weighting=None) == []
    monkeypatch.setattr(weights_check, "compel_version", lambda: None)
    assert check() == ['prompt_weighting: the weight in "(red:1.3)" needs the compel package; pip install compel']


def test_each_row_is_checked_however_much_it_is_like_the_one_before(planner, ask, image_card):
    card = msgspec.structs.replace(image_card, pipeline="StableDiffusionPipeline", parameters=())
    one = planner(card=card)
    assert one.check(ask(0, prompt="a (b:1.2)", prompt_weighting="a1111", num_frames=None)) == []
    (problem,) = one.check(ask(1, prompt="a (b", prompt_weighting="a1111"))
    assert "not closed" in str(problem)
