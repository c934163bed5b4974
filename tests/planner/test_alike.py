"""The short way of checking ends as the long one does, and is taken."""

import os
import stat
import unicodedata
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omni_cli.config import RunConfig
from omni_cli.planner.alike import Alike
from omni_cli.planner.claims import Claims
from omni_cli.planner.places import Places
from omni_cli.planner.resolve import id_of, resolve
from omni_cli.request import MAX_SEED, Adapter

QUICK = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)

LONG_WAY = "{id:s}"
"""Names files as `{id}` does, and is not the template that the short way knows."""

ids = st.sampled_from(
    [
        *(
            "a",
            "A",
            "b",
            "é",
            "e\u0301",
            "É",
            "a.mp4",
            "a b",
            "-a",
            ".a",
            "a.",
            "con",
            "CON.x",
            "com1",
            "comb",
            "x/y",
            "_a",
        ),
        *(
            "dir",
            "link",
            "pipe",
            "manifest.jsonl",
            "a" * 100,
            "a" * 101,
            "a" * 300,
            "straße",
            "STRASSE",
            "00001",
            "a\ud800",
        ),
    ]
)
outputs = st.sampled_from(
    ["a", "A.mp4", "a.webm", "a.mp4/b", "dir.mp4", "É", "way/a", "d/e", "manifest.jsonl", "a.png"]
)
own = st.fixed_dictionaries(
    {},
    optional={
        "id": ids,
        "prompt": st.sampled_from(["red", "röt", "bad \ud800", "", None]),
        "negative_prompt": st.sampled_from(["blur", "ü", "\udfff"]),
        "seed": st.sampled_from([0, 5, MAX_SEED, MAX_SEED + 1, 2**70, -1]),
    },
)
shared = st.fixed_dictionaries(
    {},
    optional={
        "output": outputs,
        "height": st.sampled_from([64, 65]),
        "num_frames": st.sampled_from([1, 9, 10]),
        "num_outputs": st.sampled_from([1, 2]),
        "format": st.sampled_from(["mp4", "gif", "png", "npy"]),
        "guidance_scale_2": st.just(1.0),
        "image": st.sampled_from(["none.png", ["none.png"]]),
        "extra": st.sampled_from([{}, {"max_sequence_length": 5}, {"nothing": [1]}]),
        "lora": st.just([Adapter(path="x/y")]),
    },
)
few = st.sampled_from([{}, {"height": 64}, {"format": "gif"}, {"num_frames": 1}, {"num_outputs": 2}, {"output": "a"}])
requests = st.tuples(own, few | few | shared).map(lambda row: {**row[0], **row[1]})


def furnish(folder: Path) -> None:
    """An output folder with something in the way, made once."""
    if folder.exists():
        return
    folder.mkdir()
    (folder / "dir.mp4").mkdir()
    (folder / "é.mp4").mkdir()
    (folder / "B.mp4").write_text("older output")
    (folder / "link.mp4").symlink_to("/etc/passwd")
    (folder / "way").symlink_to("/etc")
    os.mkfifo(folder / "pipe.mp4")


@given(st.lists(requests, max_size=12), st.booleans())
@QUICK
def test_short_and_long_way_give_the_same_problems_and_plans(planner, ask, tmp_path, rows, furnished):
    output_dir = tmp_path / ("furnished" if furnished else "none")
    if furnished:
        furnish(output_dir)
    short, long = (
        planner(output={"output_dir": str(output_dir), "name_template": template}) for template in ("{id}", LONG_WAY)
    )
    for index, fields in enumerate(rows):
        row = ask(index, **fields)
        problems = short.check(row)
        assert problems == long.check(row)
        if not problems and not {"image", "lora"} & fields.keys():
            assert short.plan(row) == long.plan(row)


@pytest.mark.parametrize(
    "odd",
    [
        {"seed": 2**70},
        {"seed": -1},
        {"prompt": "bad \ud800"},
        {"prompt": None},
        {"negative_prompt": "\udfff"},
        *({"id": name} for name in ("con", "COM1", "com1.x", "nul.a", "comb", "-a", ".a", "a.", "é", "a" * 101, "x/y")),
    ],
)
def test_an_odd_row_after_a_sound_one_is_judged_and_named_as_alone(planner, ask, odd):
    after, alone, row = planner(), planner(), ask(1, **odd)
    assert after.check(ask(0, id="first")) == []
    assert after.check(row) == alone.check(row)
    if "id" in odd:
        file = alone.plan(row).files[0]
        assert after.check(ask(2, output=file)) != []


@given(st.lists(requests, max_size=12))
@QUICK
def test_the_file_of_the_short_way_is_the_planned_one(planner, ask, card, tmp_path, rows):
    made, alike = planner(), Alike("{id}")
    for index, fields in enumerate(rows):
        row = ask(index, **fields)
        file = alike.file(row.request, id_of(row.request, index))
        if file is not None:
            assert made.plan(row).files == (file,)
        elif not planner(output={"name_template": "{index}"}).check(row):
            alike.remember(row.request, resolve(row.request, index, RunConfig(), card, tmp_path))


def test_a_row_like_a_sound_one_takes_the_short_way_and_others_do_not(ask, card, tmp_path):
    alike, first = Alike("{id}"), ask(id="a", seed=1)
    assert alike.file(first.request, "a") is None
    alike.remember(first.request, resolve(first.request, 0, RunConfig(), card, tmp_path))
    assert alike.file(ask(id="b", prompt="other", seed=2).request, "b") == "b.mp4"
    for other in ({"height": 65}, {"negative_prompt": "x"}, {"output": "x"}, {"extra": {"a": 1}}, {"prompt": None}):
        assert alike.file(ask(id="b", **other).request, "b") is None


@given(
    st.lists(
        st.tuples(st.booleans(), ids | st.lists(ids, min_size=2, max_size=3).map("/".join)),
        max_size=12,
    )
)
@QUICK
def test_claims_are_those_of_a_plain_list(steps):
    claims, seen_ids, seen_files = Claims(), {}, {}
    for line, (is_id, name) in enumerate(steps, 1):
        if is_id:
            assert claims.claim_id(name, line) == (seen_ids.get(name))
            seen_ids.setdefault(name, line)
            continue
        folded = unicodedata.normalize("NFD", unicodedata.normalize("NFD", name).casefold())
        clash = [
            one for one in seen_files if one == folded or one.startswith(folded + "/") or folded.startswith(one + "/")
        ]
        assert (claims.claim_file(name, line) is None) == (not clash)
        if not clash:
            seen_files[folded] = line


@pytest.mark.parametrize("there", [True, False])
def test_flat_names_meet_what_is_in_the_folder(tmp_path, there):
    if there:
        furnish(tmp_path / "out")
    places = Places(str(tmp_path / "out"))
    for name in ("dir.mp4", "DIR.mp4", "b.mp4", "B.mp4", "link.mp4", "pipe.mp4", "way", "é.mp4", "É.mp4", "new.mp4"):
        assert bool(places.fault(name)) == _in_the_way(tmp_path / "out" / name)


def _in_the_way(path: Path) -> bool:
    try:
        mode = path.lstat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISLNK(mode))


def test_a_file_in_the_place_of_the_output_folder_is_found(tmp_path):
    (tmp_path / "out").write_text("mine")
    assert Places(str(tmp_path / "out")).fault("a.png") == "needs a folder where a file is already"
