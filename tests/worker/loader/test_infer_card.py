"""The card of a pipeline that has none in the registry is inferred from its class."""

import pytest

from omni_cli.media import Kind
from tests.worker.loader.conftest import Tiny, load_quietly


def test_the_card_of_an_unregistered_pipeline_is_inferred_from_its_class(tiny_model: Tiny) -> None:
    card = load_quietly(str(tiny_model("ddim"))).card
    assert (card.kind, card.output_type, card.batchable) == (Kind.IMAGE, "np", False)
    assert card.defaults.num_inference_steps == 50
    assert card.defaults.height is None
    assert "generator" in card.parameters


def test_an_inferred_card_agrees_with_the_registered_one(tiny_model: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    registered = {name: load_quietly(str(tiny_model(name))).card for name in ("ltx", "flux")}
    monkeypatch.setattr("omni_cli.worker.loader.infer_card.known_card", lambda *_: None)
    for name, card in registered.items():
        inferred = load_quietly(str(tiny_model(name))).card
        assert (inferred.kind, inferred.sizes, inferred.output_type) == (card.kind, card.sizes, card.output_type)
        assert inferred.defaults.num_frames == card.defaults.num_frames
        assert inferred.defaults.num_inference_steps == card.defaults.num_inference_steps
