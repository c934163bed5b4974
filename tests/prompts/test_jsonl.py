"""Rows of OpenAI batch files, and lines that are no requests."""

import json

import pytest
from msgspec.structs import replace

from omni_cli.request import GenerationRequest


@pytest.mark.parametrize(("row", "shown"), [("5", "5"), ("null", "null"), ("true", "true"), ("[1]", "a list")])
def test_a_row_that_is_no_object_is_one_problem(problems, row, shown):
    assert problems(row, "jsonl") == [f'1:1: expected an object, such as {{"prompt": "..."}}, got {shown}']


OPENAI = {"custom_id": "r-1", "method": "POST", "url": "/v1/images/generations"}


def test_an_openai_batch_row_is_read_through_its_body(rows):
    body = {"model": "gpt-image-1", "prompt": "a cat", "n": 2, "size": "1024x768", "user": "u", "seed": 3}
    (row,) = rows(json.dumps({**OPENAI, "body": body}))
    assert row.request == GenerationRequest(
        id="r-1", prompt="a cat", num_outputs=2, width=1024, height=768, seed=3, num_frames=1
    )
    assert row.at("id") == (1, 15)
    assert row.at("width") == row.at("height") == (1, 141)


def test_mistakes_in_an_openai_batch_row_are_located_inside_it(problems):
    row = (
        '{"custom_id": "a", "method": "GET", "url": "/v1/chat/completions", '
        '"body": {"promt": "x", "id": "b"}, "sede": 1}'
    )
    assert problems(row) == [
        '1:30: method: expected "POST", got "GET"',
        '1:44: url: expected "/v1/images/generations" or "/v1/videos", got "/v1/chat/completions"',
        '1:77: unknown field "promt"; did you mean "prompt"?',
        '1:91: id: is given as "custom_id" and as "id"; keep one',
        '1:103: unknown field "sede"; did you mean "seed"?',
    ]
    assert problems('{"custom_id": "a", "body": "x"}') == [
        '1:28: body: expected an object, such as {"prompt": "..."}, got "x"'
    ]


@pytest.mark.parametrize(
    ("member", "outcome"),
    [
        ('"output_format": "webp"', GenerationRequest(id="a", prompt="x", format="webp")),
        ('"background": "opaque"', GenerationRequest(id="a", prompt="x")),
        ('"background": "auto"', GenerationRequest(id="a", prompt="x")),
        ('"background": "transparent"', "a background is a matter of the prompt: pictures here have no alpha"),
        ('"output_compression": 80', GenerationRequest(id="a", prompt="x", quality=80)),
        ('"output_compression": 0', GenerationRequest(id="a", prompt="x", quality=1)),
        ('"output_compression": 101', "quality: expected a whole number from 1 to 100, got 101"),
        ('"seconds": "4"', GenerationRequest(id="a", prompt="x", seconds=4.0)),
        ('"seconds": 12', GenerationRequest(id="a", prompt="x", seconds=12.0)),
        ('"seconds": "auto"', 'seconds: expected a number above 0 up to 3600, got "auto"'),
        ('"size": "auto"', GenerationRequest(id="a", prompt="x")),
        ('"size": "720x1280", "n": 3', GenerationRequest(id="a", prompt="x", width=720, height=1280, num_outputs=3)),
        ('"quality": "hd", "moderation": "low", "stream": false', GenerationRequest(id="a", prompt="x")),
        (
            '"image": "a.png", "mask": {"image_url": "m.png"}',
            GenerationRequest(id="a", prompt="x", image="a.png", mask="m.png"),
        ),
        ('"images": [{"image_url": "a.png"}]', GenerationRequest(id="a", prompt="x", image="a.png")),
        (
            '"image": ["a.png", {"image_url": {"url": "b.png"}}], "input_fidelity": "high"',
            GenerationRequest(id="a", prompt="x", image=["a.png", "b.png"]),
        ),
        ('"input_reference": {"image_url": "a.png"}', GenerationRequest(id="a", prompt="x", image="a.png")),
        ('"image": [{"file_id": "file-1"}, "b.png"]', "image[0]: is a file of the service, not of this machine"),
        ('"image": {"detail": "low"}', "image: expected text in double quotes, got an object"),
        ('"output_format": "bmp"', 'format: unknown format "bmp"'),
    ],
)
def test_what_openai_documents_is_mapped_or_told(rows, member, outcome):
    url = '"url": "/v1/images/edits", "method": "POST"'
    (row, *_) = rows(f'{{"custom_id": "a", {url}, "body": {{"prompt": "x", {member}}}}}')
    if isinstance(outcome, str):
        assert outcome in str(row)
    else:
        assert row.request == replace(outcome, num_frames=1)


@pytest.mark.parametrize(("url", "frames"), [("/v1/images/edits", 1), ("/v1/videos", None)])
def test_the_endpoint_tells_pictures_from_clips(rows, url, frames):
    (row,) = rows(json.dumps({"custom_id": "a", "url": url, "body": {"prompt": "x"}}))
    assert row.request.num_frames == frames
    (row,) = rows(json.dumps({"custom_id": "a", "url": url, "body": {"prompt": "x", "num_frames": 5}}))
    assert row.request.num_frames == 5


def test_what_no_other_model_has_is_told_once(rows, caplog):
    url = '"url": "/v1/images/generations", "method": "POST"'
    line = f'{{{url}, "body": {{"prompt": "x", "quality": "low", "style": "vivid", "user": "u"}}}}'
    assert [row.request for row in rows("\n".join([line] * 3))] == [GenerationRequest(prompt="x", num_frames=1)] * 3
    told = [record.getMessage() for record in caplog.records]
    assert [text.split()[0] for text in told] == ["quality", "style"]
    assert "has no effect" in told[0]
