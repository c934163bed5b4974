"""User cards: they override known cards, and all faults of the file are raised at once."""

from pathlib import Path

import pytest

from omni_cli.config import ModelConfig
from omni_cli.errors import UsageError
from omni_cli.models.registry import known_card
from omni_cli.models.user_cards import user_card, user_cards


def cards(folder: Path, text: str) -> str:
    path = folder / "cards.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_user_card_overrides_only_its_own_values(tmp_path: Path) -> None:
    path = cards(tmp_path, "[cards.LTXPipeline]\ndefaults = { fps = 30.0 }\nsizes = { multiple = 64 }\n")
    known, overridden = known_card("LTXPipeline"), known_card("LTXPipeline", ModelConfig(cards=path))
    assert known is not None
    assert overridden is not None
    assert (overridden.defaults.fps, overridden.sizes.multiple, overridden.sizes.frame_step) == (30.0, 64, 8)
    assert overridden.defaults.num_frames == known.defaults.num_frames
    assert known_card("FluxPipeline", ModelConfig(cards=path)) == known_card("FluxPipeline")


def test_user_card_alone_does_not_make_a_class_known(tmp_path: Path) -> None:
    path = cards(tmp_path, '[cards.Mine]\nprocessors = ["maker"]\n')
    assert known_card("Mine", ModelConfig(cards=path)) is None
    assert user_card("Mine", path) == {"processors": ["maker"]}
    assert user_card("Mine", None) == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[cards.A]\nbatchabel = true\n", "cards.A: unknown key 'batchabel'; did you mean \"batchable\"?"),
        ("[cards.A]\nsizes = { multipel = 8 }\n", "cards.A.sizes: unknown key 'multipel'; did you mean \"multiple\"?"),
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
def test_fault_of_the_file_is_named_with_its_place(text: str, words: str, tmp_path: Path) -> None:
    path = cards(tmp_path, text)
    with pytest.raises(UsageError) as refused:
        user_cards(path)
    assert str(refused.value).startswith(f"--cards {path}: ")
    assert words in str(refused.value)


def test_all_faults_are_raised_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        user_cards(cards(tmp_path, "[cards.A]\nx = 1\n[cards.B]\nsizes = { y = 1 }\n"))
    assert len(str(refused.value).splitlines()) == 2
    with pytest.raises(UsageError, match=r"no\.toml: cannot be read"):
        user_cards(str(tmp_path / "no.toml"))
