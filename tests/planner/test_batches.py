"""Which requests share a call, and how the stream falls into calls."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_cli.planner import batches
from omni_cli.planner.batches import batch_key
from omni_cli.request import GenerationRequest, PlannedRequest


def planned(index: int, key: str, outputs: int = 1) -> PlannedRequest:
    return PlannedRequest(
        request=GenerationRequest(id=str(index)),
        index=index,
        seeds=tuple(range(outputs)),
        files=tuple(f"{index}-{n}" for n in range(outputs)),
        fingerprint="",
        batch_key=key,
    )


def grouped(keys: str, size: int, look_ahead: int) -> list[str]:
    """Keys are letters, "." is a request that shares with none; the result shows the indices of each call."""
    stream = (planned(i, "" if key == "." else key) for i, key in enumerate(keys))
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


def test_outputs_count_towards_the_size():
    stream = [planned(0, "a", 2), planned(1, "a", 2), planned(2, "a", 1), planned(3, "b", 9), planned(4, "b", 1)]
    assert [[r.index for r in batch] for batch in batches(stream, 3, 8)] == [[0, 2], [1], [3], [4]]


def test_the_stream_is_not_read_further_than_the_look_ahead():
    read = []
    stream = (read.append(i) or planned(i, "") for i in range(100))
    calls = batches(stream, 4, 5)
    next(calls)
    assert read == [0, 1, 2, 3, 4, 5]


@given(
    st.lists(st.tuples(st.sampled_from(["", "a", "b", "c"]), st.integers(1, 4)), max_size=40),
    st.integers(1, 5),
    st.integers(0, 10),
)
def test_nothing_is_lost_starved_or_mixed(requests, size, look_ahead):
    calls = list(batches((planned(i, key, n) for i, (key, n) in enumerate(requests)), size, look_ahead))
    assert sorted(r.index for call in calls for r in call) == list(range(len(requests)))
    heads = [call[0].index for call in calls]
    assert heads == sorted(heads)
    for call in calls:
        assert len({r.batch_key for r in call}) == 1
        assert len(call) == 1 or (call[0].batch_key and sum(len(r.seeds) for r in call) <= size)
        assert [r.index for r in call] == sorted(r.index for r in call)


def key(card, **fields):
    return batch_key(GenerationRequest(**{"id": "a", "prompt": "p", "height": 64, **fields}), card)


@pytest.mark.parametrize(
    "fields",
    [{"prompt": "q"}, {"seed": 4}, {"id": "b"}, {"output": "x"}, {"format": "gif"}, {"fps": 3.0}],
)
def test_what_each_sample_has_for_itself_is_not_in_the_key(card, fields):
    assert key(card, **fields) == key(card) != ""


def test_the_text_of_a_negative_prompt_is_not_in_the_key_but_that_there_is_one(card):
    assert key(card, negative_prompt="x") == key(card, negative_prompt="") != key(card)


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
def test_what_one_call_has_once_is_in_the_key(card, fields):
    assert key(card, **fields) not in (key(card), "")


@pytest.mark.parametrize(
    "fields", [{"image": "a"}, {"mask": "a"}, {"video": "a"}, {"last_image": "a"}, {"extra": {"prompt_2": "x"}}]
)
def test_requests_with_inputs_or_second_prompts_go_alone(card, fields):
    assert key(card, **fields) == ""


def test_cards_decide_whether_requests_share_and_whether_fps_conditions(card):
    assert key(msgspec.structs.replace(card, batchable=False)) == ""
    conditioned = msgspec.structs.replace(card, parameters=("prompt", "frame_rate"))
    assert key(conditioned, fps=3.0) != key(conditioned, fps=4.0)
