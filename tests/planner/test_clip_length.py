"""Lengths of clips in seconds become numbers of frames that the pipeline renders."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_cli.config import OutputConfig, RunConfig
from omni_cli.errors import DiagnosticError
from omni_cli.media import Kind
from omni_cli.models.cards import Card, SizeRule
from omni_cli.planner.fingerprint import Fingerprinter
from omni_cli.planner.resolve import resolve
from omni_cli.request import GenerationRequest, ModelInfo

WAN = Card(
    pipeline="WanPipeline",
    kind=Kind.VIDEO,
    sizes=SizeRule(multiple=16, frame_step=4, frame_offset=1),
    defaults=GenerationRequest(num_frames=81, fps=16.0, height=480, width=832),
)
FLUX = Card(pipeline="FluxPipeline", kind=Kind.IMAGE)
NO_FLAGS = GenerationRequest()


def resolved(request: GenerationRequest, flags: GenerationRequest = NO_FLAGS, card: Card = WAN) -> GenerationRequest:
    return resolve(request, RunConfig(defaults=flags), card, Path()).request


@given(
    seconds=st.floats(0.001, 600), fps=st.none() | st.floats(1, 60), step=st.integers(1, 8), offset=st.integers(0, 1)
)
def test_the_nearest_valid_number_of_frames_is_taken(seconds: float, fps: float | None, step: int, offset: int) -> None:
    sizes = SizeRule(frame_step=step, frame_offset=offset)
    card = Card(pipeline="X", kind=Kind.VIDEO, sizes=sizes, defaults=WAN.defaults)
    request = resolved(GenerationRequest(seconds=seconds, fps=fps), card=card)
    wanted = seconds * (fps or 16)
    assert request.seconds is None
    assert request.num_frames is not None
    nearest = min((n for n in range(1, int(wanted) + 20) if sizes.frames_ok(n)), key=lambda n: abs(n - wanted))
    assert abs(request.num_frames - wanted) == abs(nearest - wanted)


def test_lengths_of_the_service_on_a_pipeline_of_16_fps() -> None:
    assert [resolved(GenerationRequest(seconds=seconds)).num_frames for seconds in (4, 8, 12)] == [65, 129, 193]


def test_the_request_wins_over_the_flag_whatever_its_unit() -> None:
    assert resolved(GenerationRequest(seconds=1.0), GenerationRequest(num_frames=5)).num_frames == 17
    assert resolved(GenerationRequest(num_frames=5), GenerationRequest(seconds=1.0)).num_frames == 5
    assert resolved(GenerationRequest(), GenerationRequest(seconds=1.0)).num_frames == 17
    assert resolved(GenerationRequest()).num_frames == 81


@pytest.mark.parametrize(
    ("request_", "card", "message"),
    [
        (GenerationRequest(seconds=1, num_frames=5), WAN, "seconds: and num_frames are both given; keep one"),
        (GenerationRequest(seconds=2), FLUX, "seconds: 2: FluxPipeline makes no video; leave it out"),
        (GenerationRequest(seconds=3600, fps=1000), WAN, "3600 s at 1000 fps are more than 100,000 frames"),
        (GenerationRequest(seconds=1), Card(pipeline="X", kind=Kind.VIDEO), "the frames per second are not known"),
    ],
)
def test_seconds_that_are_no_number_of_frames_are_a_mistake(
    request_: GenerationRequest, card: Card, message: str
) -> None:
    with pytest.raises(DiagnosticError) as caught:
        resolved(request_, card=card)
    assert message in str(caught.value)
    assert caught.value.diagnostic.field == "seconds"


def test_the_quality_of_a_request_counts_where_a_format_has_one() -> None:
    info = ModelInfo(id="m", revision="r", pipeline="FluxPipeline", dtype="float32")

    def fingerprint(request: GenerationRequest, quality: int = 95) -> str:
        config = RunConfig(output=OutputConfig(quality=quality))
        planned = resolve(request, config, FLUX, Path()).request
        return Fingerprinter(config, FLUX, info, {}).fingerprint(planned)

    jpeg, png = GenerationRequest(format="jpeg"), GenerationRequest(format="png")
    lower = GenerationRequest(format="jpeg", quality=60)
    assert fingerprint(lower) == fingerprint(jpeg, quality=60) == fingerprint(lower, quality=10)
    assert fingerprint(lower) != fingerprint(jpeg)
    assert fingerprint(GenerationRequest(format="png", quality=60)) == fingerprint(png)
