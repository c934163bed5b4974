"""Values of `extra` against what the installed diffusers says of its calls."""

import ast

import pytest

from omni_cli.models.signature import kinds_of, parameters_of
from omni_cli.planner.values import misfit, shown

IMAGE, TENSOR = {"image": "a.png"}, {"tensor": "a.npy"}


@pytest.mark.parametrize(
    ("annotation", "fitting", "others"),
    [
        ("int", [3, None], [3.0, True, "3", [3], IMAGE, {}]),
        ("float | None", [3, 0.5], [False, "x", TENSOR]),
        ("bool", [True], [1, "true"]),
        ("Optional[Union[str, List[str]]]", ["x", ["x", "y"]], [3, [3], {}, IMAGE]),
        ("list[float]", [[0.5, 1]], [0.5, ["x"], [None, True]]),
        ("tuple[int, int]", [[8, 8]], [[8.5, 8], "8x8"]),
        ("dict[str, Any] | None", [{"scale": 1}, {}], [3, IMAGE, []]),
        ("PipelineImageInput", [IMAGE, {"video": "v"}, [IMAGE], [[IMAGE]]], ["a.png", 3, {"path": "a.png"}]),
        ("torch.Tensor | None", [TENSOR], ["a.npy", 3, [[1.0]], {}]),
        ("list[torch.FloatTensor]", [[TENSOR], TENSOR], ["a.npy", 1.5]),
        ("Callable[[int], None] | int", [3, "x", {}], []),
        ("Any", [3, IMAGE, "x"], []),
    ],
)
def test_a_value_fits_the_annotation_or_does_not(annotation, fitting, others):
    kinds = kinds_of(ast.parse(annotation, mode="eval").body)
    assert [misfit(value, kinds) for value in fitting] == [None] * len(fitting)
    assert all(misfit(value, kinds) for value in others)


def test_what_to_write_is_said():
    assert misfit("a.png", frozenset({"image", "image*", "null"})) == (
        'give {"image": "file.png"} or a list of {"image": "file.png"}'
    )
    assert misfit(2.5, frozenset({"int"})) == "give a whole number"
    assert [shown(value) for value in ("a\x1b", True, IMAGE, [1], {})] == [
        'the text "a\\x1b"',
        "true",
        "a file (image)",
        "this list",
        "an object",
    ]


def test_the_call_of_a_class_is_read_from_its_source_or_that_of_a_base_class():
    import inspect

    import diffusers

    for name in ("WanPipeline", "FluxControlPipeline", "StableDiffusionXLPAGPipeline", "KandinskyV22CombinedPipeline"):
        found = parameters_of(name)
        assert found is not None
        assert list(found) == list(inspect.signature(getattr(diffusers, name).__call__).parameters)[1:], name
    wan = parameters_of("WanPipeline")
    assert wan is not None
    assert (wan["num_frames"], wan["callback_on_step_end"]) == ({"int"}, None)
    assert wan["latents"] == {"tensor", "null"}


@pytest.mark.parametrize("name", ["NoSuchPipeline", "DiffusionPipeline", "../evil", "", "torch"])
def test_a_class_that_diffusers_does_not_have_is_not_known(name):
    assert parameters_of(name) is None
