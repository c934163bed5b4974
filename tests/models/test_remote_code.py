"""What is known of models that ship their own `generate_image`."""

from omni_cli.media import Kind
from omni_cli.models.remote_code import remote_code_model


def test_known_class_has_defaults_and_forwarded_keywords() -> None:
    model = remote_code_model("HunyuanImage3ForCausalMM")
    assert model.takes == ("diff_infer_steps", "diff_guidance_scale")
    assert (model.card.kind, model.card.sizes.multiple, model.card.defaults.num_inference_steps) == (Kind.IMAGE, 16, 50)


def test_unknown_class_makes_images_of_any_size() -> None:
    model = remote_code_model("Mine")
    assert (model.card.pipeline, model.card.kind, model.card.sizes.multiple, model.takes) == ("Mine", Kind.IMAGE, 1, ())
