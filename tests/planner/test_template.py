"""`--name-template`."""

import pytest

from omni_cli.errors import UsageError
from omni_cli.planner.naming import Misnamed
from omni_cli.planner.template import FIELDS, NameTemplate
from omni_cli.request import GenerationRequest

REQUEST = GenerationRequest(
    id="a/b",
    prompt="a  red\ncat",
    width=64,
    height=32,
    num_frames=9,
    num_inference_steps=8,
    guidance_scale=3.5,
    fps=8.0,
)


def render(text: str, request: GenerationRequest = REQUEST) -> str:
    return NameTemplate(text).render(request, index=7, n=2, seed=41)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("{id}", "a_b"),
        ("{index:05d}-{seed}", "00007-41"),
        ("{width}x{height}/{id}_{n}", "64x32/a_b_2"),
        ("{prompt}", "a red cat"),
        ("{prompt:.5s}|", "a red|"),
        ("{num_frames:>3}f {num_inference_steps} {guidance_scale:.1f} {fps:g}", "  9f 8 3.5 8"),
        ("{{{id}}}", "{a_b}"),
        ("{id:/>9}", "______a_b"),
        ("{seed:x}", "29"),
    ],
)
def test_fields_take_the_values_of_the_request(text, name):
    assert render(text) == name


def test_a_long_prompt_leaves_room_for_the_rest():
    name = render("{prompt}-{index}", GenerationRequest(id="a", prompt="猫" * 400))
    assert name.startswith("猫" * 29 + "-")
    assert name.endswith("-7")
    assert len(name.encode()) <= 98


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{name}", "unknown field {name}"),
        ("{id.__class__}", "unknown field {id.__class__}"),
        ("{id[0]}", "unknown field {id[0]}"),
        ("{}", "unknown field {}"),
        ("{0}", "unknown field {0}"),
        ("{id!r}", "not a plain one"),
        ("{index:{width}}", "not a plain one"),
        ("{index:099999999d}", "not a plain one"),
        ("{index:s}", "does not fit"),
        ("{id:d}", "does not fit"),
        ("{id", "expected '}'"),
        ("/tmp/{id}", "relative path"),
        ("../{id}", "relative path"),
        ("a/./{id}", "relative path"),
        ("{id}/", "relative path"),
        ("", "relative path"),
        ("{id}.png", "leave the extension out"),
        ("{id}.mov", "leave the extension out"),
    ],
)
def test_a_template_that_cannot_be_used_is_refused_with_the_fields_there_are(text, reason):
    with pytest.raises(UsageError) as refused:
        NameTemplate(text)
    assert reason in str(refused.value)
    assert all(f"{{{field}}}" in str(refused.value) for field in FIELDS)


def test_a_value_that_is_not_known_yet_is_named():
    with pytest.raises(Misnamed, match="not known before rendering") as refused:
        render("{width}-{id}", GenerationRequest(id="a"))
    assert refused.value.field == "width"
