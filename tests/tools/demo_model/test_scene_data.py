"""The sentences of the training data, and the split into training and held-out scenes."""

import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from omni_cli.models.demo.scenes import all_scenes, caption
from tools.demo_model.scene_data import held_out, paraphrase, parse, training_scenes, vocabulary

ROOT = Path(__file__).parents[3]

FIRST_HELD_OUT = [
    "a red square moving right on a gray background",
    "an orange triangle moving right on a blue background",
    "a white square moving up on a gray background",
]


def test_every_caption_is_parsed() -> None:
    assert [parse(caption(scene)) for scene in all_scenes()] == list(all_scenes())


@pytest.mark.parametrize(
    "prompt",
    ["", "a cat", "a red circle", "a red circle on a red background", "a blue circle on a blue background",
     "a red circle moving right on a blue background, at night", "a red circle flying on a blue background"],
)  # fmt: skip
def test_other_sentences_are_not_parsed(prompt: str) -> None:
    assert parse(prompt) is None


def test_training_and_held_out_scenes_are_disjoint() -> None:
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
    code = "from tools.demo_model.scene_data import caption, held_out; print(*map(caption, held_out()), sep='\\n')"
    printed = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, cwd=ROOT, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(printed) == 1


def test_paraphrases_use_known_words_and_name_both_colours() -> None:
    rng, words = random.Random(0), set(vocabulary())
    for scene in all_scenes():
        sentence = paraphrase(scene, rng)
        assert set(re.findall(r"\w+|[^\w\s]", sentence)) <= words
        assert scene.background in sentence.replace("grey", "gray").replace("violet", "purple")
        assert scene.foreground in sentence.replace("grey", "gray").replace("violet", "purple")
