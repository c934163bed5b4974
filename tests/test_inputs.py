"""The input files of a request: found, and replaced, wherever a request may name them."""

from omni_cli.inputs import InputFile, InputKind, input_files, reads_clip, reads_files, with_paths
from omni_cli.request import Adapter, GenerationRequest

EXTRA = {
    "control_image": {"image": "pose.png"},
    "reference_images": [{"image": "1.png"}, {"image": "2.png"}],
    "scale": 0.5,
    "kwargs": {"image": 3},
    "two": {"image": "no", "mask": "no"},
    "names": ["image"],
}
EVERYTHING = GenerationRequest(
    image=["a.png", "b.png"],
    last_image="c.png",
    mask="d.png",
    video="e.mp4",
    prompt_embeds="g.safetensors",
    latents="h.npy",
    lora=[Adapter(path="f", weight=0.5)],
    extra=EXTRA,
)


def test_input_files_are_listed_as_written_with_what_they_are_read_as() -> None:
    assert input_files(EVERYTHING) == [
        InputFile("image", "a.png", InputKind.IMAGE),
        InputFile("image", "b.png", InputKind.IMAGE),
        InputFile("last_image", "c.png", InputKind.IMAGE),
        InputFile("mask", "d.png", InputKind.MASK),
        InputFile("video", "e.mp4", InputKind.VIDEO),
        InputFile("prompt_embeds", "g.safetensors", InputKind.TENSORS),
        InputFile("latents", "h.npy", InputKind.TENSOR),
        InputFile("lora", "f", InputKind.LORA),
        InputFile("extra", "pose.png", InputKind.IMAGE, "control_image"),
        InputFile("extra", "1.png", InputKind.IMAGE, "reference_images"),
        InputFile("extra", "2.png", InputKind.IMAGE, "reference_images"),
    ]
    assert input_files(EVERYTHING)[-1].name == "extra.reference_images"


def test_every_path_is_replaced_and_nothing_else() -> None:
    changed = with_paths(EVERYTHING, lambda file: f"/x/{file.path}")
    assert [file.path for file in input_files(changed)] == [f"/x/{file.path}" for file in input_files(EVERYTHING)]
    assert changed.extra is not None
    assert {key: changed.extra[key] for key in ("scale", "kwargs", "two", "names")} == {
        key: EXTRA[key] for key in ("scale", "kwargs", "two", "names")
    }
    assert with_paths(changed, lambda file: file.path.removeprefix("/x/")) == EVERYTHING


def test_a_request_without_files_is_left_as_it_is() -> None:
    plain = GenerationRequest(prompt="x")
    assert with_paths(plain, lambda file: "never") is plain
    assert not reads_files(plain)
    assert not reads_files(GenerationRequest(lora=[Adapter(path="f")], extra={"eta": 0.5}))
    assert reads_files(GenerationRequest(extra={"control_image": {"mask": "m.png"}}))


def test_a_clip_may_be_a_field_or_stand_in_a_list_of_extra() -> None:
    assert reads_clip(EVERYTHING)
    assert reads_clip(GenerationRequest(extra={"conditions": [{"video": "a.mp4"}, {"video": "b.mp4"}]}))
    assert not reads_clip(GenerationRequest(image="a.png", extra=EXTRA))
