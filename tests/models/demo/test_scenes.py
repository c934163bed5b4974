"""The scenes of the demo model and their captions."""

import subprocess
import sys

from omni_cli.models.demo.scenes import Scene, all_scenes, caption


def test_captions_are_plain_english() -> None:
    assert caption(Scene("red", "blue", "circle", "right")) == "a red circle moving right on a blue background"
    assert caption(Scene("orange", "white", "square", "still")) == "an orange square on a white background"
    assert caption(Scene("green", "black", "triangle", "growing")) == "a green triangle growing on a black background"


def test_combinations_differ_in_colour() -> None:
    assert len(all_scenes()) == len(set(all_scenes())) == 903
    assert all(scene.foreground != scene.background for scene in all_scenes())


def test_scenes_need_no_third_party_package() -> None:
    code = "import sys, omni_cli.models.demo.scenes; print({'torch', 'numpy'} & set(sys.modules))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout
    assert printed.strip() == "set()"
