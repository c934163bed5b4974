"""Properties over random requests and random bytes: what is written reads back equal, and nothing raises."""

import io
import json
import math

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omni_cli.errors import Diagnostic
from omni_cli.prompts import FIELDS, FORMATS, LocatedRequest, read
from omni_cli.prompts.fields import ALIASES
from omni_cli.prompts.reader import ReadOptions
from omni_cli.request import MAX_SEED, Adapter, GenerationRequest

QUICK = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])

text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
words = st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters="/\\:."), min_size=1, max_size=12)
sides = st.integers(1, 16384)
numbers = st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | numbers | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
keywords = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True).filter(lambda name: name not in FIELDS)


def maybe(values):
    return st.none() | values


valid_requests = st.builds(
    GenerationRequest,
    id=maybe(words),
    prompt=st.tuples(text, words).map("".join),
    negative_prompt=maybe(text),
    seed=maybe(st.integers(0, MAX_SEED)),
    height=maybe(sides),
    width=maybe(sides),
    num_frames=maybe(st.integers(1, 1000)),
    fps=maybe(st.floats(0, 1000, exclude_min=True)),
    num_inference_steps=maybe(st.integers(1, 10000)),
    guidance_scale=maybe(numbers),
    guidance_scale_2=maybe(numbers),
    true_cfg_scale=maybe(numbers),
    strength=maybe(st.floats(0, 1)),
    image=maybe(words | st.lists(words, min_size=1, max_size=3)),
    last_image=maybe(words),
    mask=maybe(words),
    video=maybe(words),
    num_outputs=maybe(st.integers(1, 1000)),
    lora=maybe(st.lists(st.builds(Adapter, path=words, weight=numbers), max_size=2)),
    extra=maybe(st.dictionaries(keywords, json_values, max_size=3)),
    output=maybe(st.lists(words, min_size=1, max_size=3).map("/".join)),
    format=maybe(st.sampled_from(FORMATS)),
)


def rows_of(content, kind):
    return list(read("-", binary=io.BytesIO(content), options=ReadOptions(format=kind)))


@QUICK
@given(valid_requests)
def test_a_request_encoded_as_a_json_line_reads_back_equal(request):
    line = msgspec.json.encode(request)
    assert [row.request for row in rows_of(line, "jsonl")] == [request]
    assert [row.request for row in rows_of(b"[" + line + b",\n" + line + b"]", "json")] == [request, request]


@QUICK
@given(valid_requests, st.data())
def test_escapes_blanks_and_nulls_do_not_change_the_request(request, data):
    """Such rows miss the fast path."""
    row = json.loads(msgspec.json.encode(request)) | {"seed": request.seed, "num_outputs": request.num_outputs}
    spelled = json.dumps(row, ensure_ascii=data.draw(st.booleans()), indent=data.draw(st.sampled_from([None, 1])))
    assert [one.request for one in rows_of(spelled.encode(), "json")] == [request]


@QUICK
@given(valid_requests)
def test_every_field_can_be_located(request):
    line = msgspec.json.encode(request)
    (row,) = rows_of(line, "jsonl")
    characters = line.decode()
    for name, value in msgspec.structs.asdict(request).items():
        if value is not None:
            column = row.at(name)[1]
            assert characters[: column - 1].endswith(f'"{name}":')


fragments = st.sampled_from(
    [
        *'{}[]:,"\\\n\r\t 0',
        "\\u",
        "\\ud800",
        "1e999",
        "NaN",
        "true",
        "null",
        "é",
        "\x00",
        "#",
        *FIELDS,
        *ALIASES,
        "size",
    ]
)
near_json = st.lists(fragments | fragments.map(lambda name: f'"{name}":'), max_size=30).map(
    lambda parts: "".join(parts).encode("utf-8")
)


@pytest.mark.parametrize("kind", [None, "jsonl", "json", "csv", "tsv", "txt"])
@QUICK
@given(content=st.binary(max_size=200) | near_json)
def test_any_bytes_give_rows_or_printable_problems_and_never_raise(kind, content):
    found = rows_of(content, kind)
    assert found
    for row in found:
        assert isinstance(row, LocatedRequest | Diagnostic)
        if isinstance(row, Diagnostic):
            assert str(row).isprintable()
            assert row.line >= 1
            assert row.column >= 1
            assert row.line <= content.count(b"\n") + content.count(b"\r") + 1
        else:
            assert msgspec.json.decode(msgspec.json.encode(row.request), type=GenerationRequest) == row.request
            row.at("prompt")


@QUICK
@given(st.lists(near_json.map(lambda part: b'{"prompt":"x",' + part + b"}"), min_size=1, max_size=3))
def test_an_array_holds_its_lines_requests(lines):
    """A line that is valid is valid as an element and gives the same request."""
    sound = [line for line in lines if b"\n" not in line and isinstance(rows_of(line, "jsonl")[0], LocatedRequest)]
    if sound:
        as_lines = [row.request for row in rows_of(b"\n".join(sound), "jsonl")]
        assert [row.request for row in rows_of(b"[" + b",".join(sound) + b"]", "json")] == as_lines


@QUICK
@given(
    st.lists(st.tuples(words, text, st.integers(0, MAX_SEED)), min_size=1, max_size=4), st.sampled_from(["csv", "tsv"])
)
def test_quoted_cells_read_back_equal(cells, kind):
    mark = "," if kind == "csv" else "\t"

    def quote(value):
        return '"' + value.replace('"', '""') + '"'

    lines = [mark.join(["prompt", "negative_prompt", "seed"])]
    lines += [mark.join([quote(prompt), quote(negative), str(seed)]) for prompt, negative, seed in cells]
    found = rows_of("\n".join(lines).encode(), kind)
    assert [(row.request.prompt, row.request.negative_prompt, row.request.seed) for row in found] == [
        (prompt, negative if negative.strip() else None, seed) for prompt, negative, seed in cells
    ]


def test_numbers_are_read_exactly():
    (row,) = rows_of(
        b'{"prompt": "x", "extra": {"a": 0.1, "b": 5e-324, "c": 1.7976931348623157e308, "d": -0.0}}', "jsonl"
    )
    assert row.request.extra == {"a": 0.1, "b": 5e-324, "c": 1.7976931348623157e308, "d": 0.0}
    assert math.copysign(1, row.request.extra["d"]) == -1
