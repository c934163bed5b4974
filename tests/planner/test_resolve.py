"""Whose word counts."""

from pathlib import Path

import msgspec
import pytest

from omni_cli.config import OutputConfig, RunConfig
from omni_cli.errors import UsageError
from omni_cli.media import Kind
from omni_cli.models.cards import Card
from omni_cli.planner.naming import Misnamed
from omni_cli.planner.resolve import resolve
from omni_cli.request import Adapter, GenerationRequest


@pytest.fixture
def resolved(card):
    """resolved(card=..., defaults={...}, output={...}, **fields of the request) at index 7 in /base."""

    def make(*, card=card, defaults=None, output=None, **fields):
        config = RunConfig(defaults=GenerationRequest(**(defaults or {})), output=OutputConfig(**(output or {})))
        return resolve(GenerationRequest(**fields), 7, config, card, Path("/base"))

    return make


def test_the_request_then_the_flags_then_the_card(resolved):
    request = resolved(height=32, defaults={"height": 48, "width": 48, "id": "no", "output": "no"}).request
    assert (request.height, request.width, request.num_frames, request.fps) == (32, 48, 9, 8.0)
    assert (request.id, request.output, request.num_outputs, request.format) == ("00007", None, 1, "mp4")


def test_extra_is_merged_key_by_key(resolved, card):
    card = msgspec.structs.replace(card, defaults=GenerationRequest(extra={"a": 1, "b": 1, "c": 1}))
    assert resolved(card=card, extra={"a": 3}, defaults={"extra": {"a": 2, "b": 2}}).request.extra == {
        "a": 3,
        "b": 2,
        "c": 1,
    }


def test_what_was_said_is_kept_apart_from_the_cards_word(resolved):
    said = resolved(height=32, defaults={"width": 48}).said
    assert (said.height, said.width, said.num_frames) == (32, 48, None)


def test_one_frame_of_a_video_pipeline_is_an_image(resolved):
    one = resolved(num_frames=1)
    assert (one.kind, one.request.format, one.request.fps, one.request.num_frames) == (Kind.IMAGE, "png", None, 1)
    assert resolved(num_frames=5).kind is Kind.VIDEO


def test_an_unknown_pipeline_keeps_its_own_sizes(resolved):
    request = resolved(card=Card(pipeline="X", kind=Kind.IMAGE), num_frames=1).request
    assert (request.height, request.width, request.num_frames, request.format) == (None, None, None, "png")


def test_the_format_is_said_then_the_extension_then_the_flags_then_the_kind(resolved):
    flags = {"defaults": {"format": "gif"}, "output": {"video_format": "webm", "image_format": "webp"}}
    assert resolved(format="npy", **flags).request.format == "npy"
    assert resolved(**flags).request.format == "gif"
    assert resolved(output={"video_format": "webm"}).request.format == "webm"
    assert resolved(output={"image_format": "jpg"}, num_frames=1).request.format == "jpeg"
    assert resolved(defaults={"format": "webm"}).request.format == "webm"


def test_an_extension_of_output_selects_the_format(card):
    config = RunConfig(defaults=GenerationRequest(format="webm"))
    found = resolve(GenerationRequest(output="x/a.GIF"), 0, config, card, Path())
    assert (found.request.format, found.request.output) == ("gif", "x/a.GIF")
    with pytest.raises(Misnamed):
        resolve(GenerationRequest(output="a.wmv"), 0, config, card, Path())
    with pytest.raises(UsageError, match="unknown format"):
        resolve(GenerationRequest(format="tiff"), 0, config, card, Path())


def test_input_paths_start_at_the_prompt_file_and_those_of_flags_at_the_working_folder(resolved, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    request = resolved(
        image=["a.png", "/b.png"], video="../v.mp4", defaults={"mask": "m.png", "image": "no.png"}
    ).request
    assert request.image == ["/base/a.png", "/b.png"]
    assert request.video == "/base/../v.mp4"
    assert request.mask == str(tmp_path / "m.png")
    assert resolved(last_image="http://x/y.png").request.last_image == "http://x/y.png"


def test_a_lora_is_a_path_if_it_is_there_or_written_like_one_else_a_hub_id(card, tmp_path):
    (tmp_path / "here").mkdir()
    lora = [Adapter(path=path, weight=0.5) for path in ("here", "user/name", "gone.safetensors", "./gone")]
    found = resolve(GenerationRequest(lora=lora), 0, RunConfig(), card, tmp_path).request.lora
    assert [adapter.path for adapter in found] == [
        str(tmp_path / "here"),
        "user/name",
        str(tmp_path / "gone.safetensors"),
        str(tmp_path / "gone"),
    ]
    assert {adapter.weight for adapter in found} == {0.5}
