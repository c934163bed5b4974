"""Size and rate that input files give where the request has none."""

import pytest
from PIL import Image

from omni_cli.media import Kind
from omni_cli.models.cards import Card, SizeRule
from omni_cli.request import GenerationRequest
from tests.planner.checks.test_input_files import clip

SQUARE = GenerationRequest(height=64, width=64, fps=8.0)
PARAMETERS = ("prompt", "image", "video", "height", "width")


@pytest.fixture
def size(planner, ask, tmp_path):
    """size(picture size, card defaults, **request) gives height and width of the plan."""

    def of(picture, defaults=SQUARE, parameters=PARAMETERS, exif=None, **fields):
        Image.new("RGB", picture).save(tmp_path / "in.jpg", exif=exif or Image.Exif())
        card = Card(
            pipeline="X", kind=Kind.IMAGE, sizes=SizeRule(multiple=16), defaults=defaults, parameters=parameters
        )
        one = planner(card=card)
        row = ask(**{"image": "in.jpg", **fields})
        assert one.check(row) == []
        request = one.plan(row).request
        return request.height, request.width

    return of


def test_size_has_the_aspect_of_the_picture_and_the_area_of_the_card(size):
    assert size((200, 100)) == (32, 80)  # sqrt(4096 / 2) = 45, sqrt(4096 * 2) = 91, rounded down to 16
    assert size((100, 200)) == (80, 32)
    assert size((10, 10)) == (64, 64)
    assert size((1000, 1)) == (16, 2016)


def test_first_picture_of_a_list_gives_the_size(size):
    assert size((200, 100), image=["in.jpg", "in.jpg"]) == (32, 80)


def test_exif_orientation_is_applied(size):
    exif = Image.Exif()
    exif[0x0112] = 6
    assert size((200, 100), exif=exif) == (80, 32)


def test_picture_size_is_rounded_down_if_the_card_gives_none(size):
    assert size((200, 100), GenerationRequest()) == (96, 192)


def test_explicit_size_is_kept(size):
    assert size((200, 100), height=32, width=32) == (32, 32)
    assert size((200, 100), width=32) == (64, 32)
    assert size((200, 100), image=None) == (64, 64)
    assert size((200, 100), GenerationRequest(), parameters=("prompt", "image")) == (None, None)


def test_clip_gives_size_and_rate(planner, ask, tmp_path):
    clip(tmp_path / "in.mp4", 64, 32, rate=12)
    card = Card(
        pipeline="X",
        kind=Kind.VIDEO,
        sizes=SizeRule(multiple=16),
        defaults=GenerationRequest(height=64, width=64, fps=8.0),
        parameters=PARAMETERS,
    )
    request = planner(card=card).plan(ask(video="in.mp4")).request
    assert (request.height, request.width, request.fps) == (32, 80, 12.0)
    assert planner(card=card).plan(ask(video="in.mp4", fps=5.0)).request.fps == 5.0
    assert planner(card=card, defaults={"fps": 6.0}).plan(ask(video="in.mp4")).request.fps == 6.0
