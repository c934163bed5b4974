"""Cards of the user's own: laid over the known ones, and every fault of the file named at once."""

from pathlib import Path

import pytest

from omni_cli.config import ModelConfig
from omni_cli.errors import UsageError
from omni_cli.models.own import own_card, own_cards
from omni_cli.models.registry import card_for


def cards(folder: Path, text: str) -> str:
    path = folder / "cards.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_card_of_ones_own_changes_what_it_says_and_nothing_else(tmp_path: Path) -> None:
    path = cards(tmp_path, "[cards.LTXPipeline]\ndefaults = { fps = 30.0 }\nsizes = { multiple = 64 }\n")
    known, own = card_for("LTXPipeline"), card_for("LTXPipeline", ModelConfig(cards=path))
    assert known is not None
    assert own is not None
    assert (own.defaults.fps, own.sizes.multiple, own.sizes.frame_step) == (30.0, 64, 8)
    assert own.defaults.num_frames == known.defaults.num_frames
    assert card_for("FluxPipeline", ModelConfig(cards=path)) == card_for("FluxPipeline")


def test_a_class_that_nobody_knows_is_told_by_loading(tmp_path: Path) -> None:
    path = cards(tmp_path, '[cards.Mine]\nprocessors = ["maker"]\n')
    assert card_for("Mine", ModelConfig(cards=path)) is None
    assert own_card("Mine", path) == {"processors": ["maker"]}
    assert own_card("Mine", None) == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[cards.A]\nbatchabel = true\n", "cards.A: unknown key 'batchabel'; did you mean 'batchable'?"),
        ("[cards.A]\nsizes = { multipel = 8 }\n", "cards.A.sizes: unknown key 'multipel'; did you mean 'multiple'?"),
        ("[cards.A]\ndefaults = { steps = 8 }\n", "cards.A.defaults: unknown key 'steps'"),
        ("[cards.A]\nparameters = ['x']\n", "cards.A: unknown key 'parameters'"),
        ("[cards.A]\nbatchable = 'yes'\n", "cards.A: Expected `bool`, got `str`"),
        ("[cards.A]\nkind = 'film'\n", "Invalid enum value 'film'"),
        ("cards = 3\n", "has no [cards.ClassName] table"),
        ("[cards]\nA = 3\n", "cards.A: must be a table"),
        ("[card.A]\n[cards.B]\n", "card: no such table"),
        ("[cards.A\n", "Expected ']'"),
    ],
)
def test_a_fault_of_the_file_is_named_with_its_place(text: str, words: str, tmp_path: Path) -> None:
    path = cards(tmp_path, text)
    with pytest.raises(UsageError) as refused:
        own_cards(path)
    assert str(refused.value).startswith(f"--cards {path}: ")
    assert words in str(refused.value)


def test_all_faults_are_told_at_once_and_a_missing_file_too(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        own_cards(cards(tmp_path, "[cards.A]\nx = 1\n[cards.B]\nsizes = { y = 1 }\n"))
    assert len(str(refused.value).splitlines()) == 2
    with pytest.raises(UsageError, match=r"no\.toml: cannot be read"):
        own_cards(str(tmp_path / "no.toml"))
