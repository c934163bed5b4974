"""The facts of the demo model: its sentences, its combinations and its split."""

import random
import re
import subprocess
import sys

import pytest

from omni_cli.models.demo import scenes
from omni_cli.models.demo.scenes import Scene, all_scenes, caption, held_out, paraphrase, parse, training_scenes


def test_every_caption_is_read_back() -> None:
    assert [parse(caption(scene)) for scene in all_scenes()] == list(all_scenes())


def test_captions_are_plain_english() -> None:
    assert caption(Scene("red", "blue", "circle", "right")) == "a red circle moving right on a blue background"
    assert caption(Scene("orange", "white", "square", "still")) == "an orange square on a white background"
    assert caption(Scene("green", "black", "triangle", "growing")) == "a green triangle growing on a black background"


@pytest.mark.parametrize(
    "prompt",
    ["", "a cat", "a red circle", "a red circle on a red background", "a blue circle on a blue background",
     "a red circle moving right on a blue background, at night", "a red circle flying on a blue background"],
)  # fmt: skip
def test_other_sentences_are_not_read(prompt: str) -> None:
    assert parse(prompt) is None


def test_combinations_differ_in_colour() -> None:
    assert len(all_scenes()) == len(set(all_scenes())) == 903
    assert all(scene.foreground != scene.background for scene in all_scenes())


def test_training_never_sees_what_is_held_out() -> None:
    assert len(held_out()) == 210
    assert not set(held_out()) & set(training_scenes())
    assert set(held_out()) | set(training_scenes()) == set(all_scenes())


def test_every_word_of_a_held_out_scene_is_seen_in_training() -> None:
    for name in ("foreground", "background", "shape", "motion"):
        trained = {getattr(scene, name) for scene in training_scenes()}
        assert {getattr(scene, name) for scene in held_out()} <= trained


def test_split_is_the_one_that_the_weights_were_trained_with() -> None:
    assert [caption(scene) for scene in held_out()[:3]] == FIRST_HELD_OUT


def test_split_does_not_depend_on_the_hash_seed() -> None:
    code = "from omni_cli.models.demo.scenes import *; print(*map(caption, held_out()), sep='\\n')"
    printed = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(printed) == 1


def test_scenes_need_no_third_party_package() -> None:
    code = "import sys, omni_cli.models.demo.scenes; print({'torch', 'numpy'} & set(sys.modules))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout
    assert printed.strip() == "set()"


def test_paraphrases_use_known_words_and_name_both_colours() -> None:
    rng, words = random.Random(0), set(scenes.vocabulary())
    for scene in all_scenes():
        sentence = paraphrase(scene, rng)
        assert set(re.findall(r"\w+|[^\w\s]", sentence)) <= words
        assert scene.background in sentence.replace("grey", "gray").replace("violet", "purple")
        assert scene.foreground in sentence.replace("grey", "gray").replace("violet", "purple")


FIRST_HELD_OUT = [
    "a red square moving right on a gray background",
    "an orange triangle moving right on a blue background",
    "a white square moving up on a gray background",
]
