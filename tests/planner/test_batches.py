"""Batch keys, and the calls that a stream of requests is cut into."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_cli.planner import batches
from omni_cli.planner.batches import shape_of
from omni_cli.request import GenerationRequest
from tests.factories import planned


def grouped(keys: str, size: int, look_ahead: int) -> list[str]:
    """Keys are letters, "." stands for no key; return the indices of each call."""
    stream = (planned(index=i, batch_key="" if key == "." else key) for i, key in enumerate(keys))
    return ["".join(str(request.index) for request in batch) for batch in batches(stream, size, look_ahead)]


@pytest.mark.parametrize(
    ("keys", "size", "look_ahead", "calls"),
    [
        ("aaaaa", 2, 8, ["01", "23", "4"]),
        ("ababab", 3, 8, ["024", "135"]),
        ("abbbba", 2, 2, ["0", "12", "34", "5"]),
        ("abbbba", 2, 5, ["05", "12", "34"]),
        ("...", 4, 8, ["0", "1", "2"]),
        ("a.a.a", 4, 8, ["024", "1", "3"]),
        ("aaa", 1, 8, ["0", "1", "2"]),
        ("aaa", 4, 0, ["0", "1", "2"]),
        ("", 4, 8, []),
    ],
)
def test_equal_keys_share_a_call_within_the_look_ahead(keys, size, look_ahead, calls):
    assert grouped(keys, size, look_ahead) == calls


def test_outputs_count_towards_the_call_size():
    outputs = [("a", 2), ("a", 2), ("a", 1), ("b", 9), ("b", 1)]
    stream = [planned(index=i, batch_key=key, seeds=tuple(range(n))) for i, (key, n) in enumerate(outputs)]
    assert [[r.index for r in batch] for batch in batches(stream, 3, 8)] == [[0, 2], [1], [3], [4]]


def test_batches_reads_no_further_than_the_look_ahead():
    read = []
    stream = (read.append(i) or planned(index=i) for i in range(100))
    calls = batches(stream, 4, 5)
    next(calls)
    assert read == [0, 1, 2, 3, 4, 5]


@given(
    st.lists(st.tuples(st.sampled_from(["", "a", "b", "c"]), st.integers(1, 4)), max_size=40),
    st.integers(1, 5),
    st.integers(0, 10),
)
def test_batches_lose_starve_and_mix_nothing(requests, size, look_ahead):
    stream = (planned(index=i, batch_key=key, seeds=tuple(range(n))) for i, (key, n) in enumerate(requests))
    calls = list(batches(stream, size, look_ahead))
    assert sorted(r.index for call in calls for r in call) == list(range(len(requests)))
    heads = [call[0].index for call in calls]
    assert heads == sorted(heads)
    for call in calls:
        assert len({r.shape.batch_key for r in call}) == 1
        assert len(call) == 1 or (call[0].shape.batch_key and sum(len(r.seeds) for r in call) <= size)
        assert [r.index for r in call] == sorted(r.index for r in call)


def key(card, **fields):
    return shape_of(GenerationRequest(**{"id": "a", "prompt": "p", "height": 64, **fields}), card).batch_key


@pytest.mark.parametrize(
    "fields",
    [{"prompt": "q"}, {"seed": 4}, {"id": "b"}, {"output": "x"}, {"format": "gif"}, {"fps": 3.0}],
)
def test_fields_of_one_sample_are_not_in_the_batch_key(card, fields):
    assert key(card, **fields) == key(card) != ""


def test_presence_of_a_negative_prompt_is_in_the_batch_key(card):
    assert key(card, negative_prompt="x") == key(card, negative_prompt="") != key(card)


@pytest.mark.parametrize("text", ["prompt", "negative_prompt"])
def test_only_equal_texts_with_weights_share_a_call(card, text):
    def weighted(words):
        return key(card, **{"seed": len(words), text: words, "prompt_weighting": "a1111"})

    assert weighted("a (b:1.2)") == weighted("a (b:1.2)") != weighted("a (b:1.3), " * 40) != ""
    assert weighted("a (b:1.2)") != key(card, **{text: "a (b:1.2)"})


@pytest.mark.parametrize(
    "fields",
    [
        {"height": 32},
        {"num_frames": 5},
        {"guidance_scale": 1.0},
        {"num_outputs": 2},
        {"extra": {"a": 1}},
        {"prompt": None},
    ],
)
def test_fields_of_a_whole_call_are_in_the_batch_key(card, fields):
    assert key(card, **fields) not in (key(card), "")


@pytest.mark.parametrize(
    "fields", [{"image": "a"}, {"mask": "a"}, {"video": "a"}, {"last_image": "a"}, {"extra": {"prompt_2": "x"}}]
)
def test_requests_with_inputs_or_further_prompts_have_no_batch_key(card, fields):
    assert key(card, **fields) == ""


def test_card_decides_on_batching_and_on_fps(card):
    assert key(msgspec.structs.replace(card, batchable=False)) == ""
    conditioned = msgspec.structs.replace(card, parameters=("prompt", "frame_rate"))
    assert key(conditioned, fps=3.0) != key(conditioned, fps=4.0)


def test_latent_output_is_in_the_batch_key_and_other_formats_are_not(card):
    assert key(card, interpolate=2, format="webm") == key(card) == key(card, format="frames")
    assert key(card, format="latent") != key(card)


def test_values_that_json_cannot_tell_apart_have_keys_of_their_own(card):
    values = (None, float("inf"), float("nan"), 1, 1.0, True)
    assert len({key(card, extra={"a": value}) for value in values}) == len(values)
