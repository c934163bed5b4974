"""Layers of values, formats, paths and seeds of a request."""

from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from omni_cli.config import OutputConfig, RunConfig
from omni_cli.errors import DiagnosticError, UsageError
from omni_cli.media import Kind
from omni_cli.models.cards import Card
from omni_cli.planner.resolve import resolve, sample_seeds
from omni_cli.request import MAX_SEED, Adapter, GenerationRequest


@pytest.fixture
def resolved(card):
    """resolved(card=..., defaults={...}, output={...}, **fields of the request) in /base."""

    def make(*, card=card, defaults=None, output=None, **fields):
        config = RunConfig(defaults=GenerationRequest(**(defaults or {})), output=OutputConfig(**(output or {})))
        return resolve(GenerationRequest(**{"id": "a", **fields}), config, card, Path("/base"))

    return make


def test_request_overrides_flags_and_flags_override_the_card(resolved):
    request = resolved(height=32, defaults={"height": 48, "width": 48, "id": "no", "output": "no"}).request
    assert (request.height, request.width, request.num_frames, request.fps) == (32, 48, 9, 8.0)
    assert (request.id, request.output, request.num_outputs, request.format) == ("a", None, 1, "mp4")


def test_extra_is_merged_key_by_key(resolved, card):
    card = msgspec.structs.replace(card, defaults=GenerationRequest(extra={"a": 1, "b": 1, "c": 1}))
    assert resolved(card=card, extra={"a": 3}, defaults={"extra": {"a": 2, "b": 2}}).request.extra == {
        "a": 3,
        "b": 2,
        "c": 1,
    }


def test_explicit_values_exclude_the_cards_defaults(resolved):
    explicit = resolved(height=32, defaults={"width": 48}).explicit
    assert (explicit.height, explicit.width, explicit.num_frames) == (32, 48, None)


def test_single_frame_of_a_video_pipeline_is_an_image(resolved):
    one = resolved(num_frames=1)
    assert (one.kind, one.request.format, one.request.fps, one.request.num_frames) == (Kind.IMAGE, "png", None, 1)
    assert resolved(num_frames=5).kind is Kind.VIDEO


def test_card_without_defaults_leaves_sizes_open(resolved):
    request = resolved(card=Card(pipeline="X", kind=Kind.IMAGE), num_frames=1).request
    assert (request.height, request.width, request.num_frames, request.format) == (None, None, None, "png")


def test_format_comes_from_request_flag_or_kind(resolved):
    flags = {"defaults": {"format": "gif"}, "output": {"video_format": "webm", "image_format": "webp"}}
    assert resolved(format="npy", **flags).request.format == "npy"
    assert resolved(**flags).request.format == "gif"
    assert resolved(output={"video_format": "webm"}).request.format == "webm"
    assert resolved(output={"image_format": "jpg"}, num_frames=1).request.format == "jpeg"
    assert resolved(defaults={"format": "webm"}).request.format == "webm"


def test_extension_of_output_selects_the_format(card):
    config = RunConfig(defaults=GenerationRequest(format="webm"))
    resolved_request = resolve(GenerationRequest(output="x/a.GIF"), config, card, Path())
    assert (resolved_request.request.format, resolved_request.request.output) == ("gif", "x/a.GIF")
    with pytest.raises(DiagnosticError):
        resolve(GenerationRequest(output="a.wmv"), config, card, Path())
    with pytest.raises(UsageError, match="unknown format"):
        resolve(GenerationRequest(format="tiff"), config, card, Path())


def test_relative_inputs_start_at_the_prompt_file_and_those_of_flags_at_the_working_folder(
    resolved, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    request = resolved(
        image=["a.png", "/b.png"], video="../v.mp4", defaults={"mask": "m.png", "image": "no.png"}
    ).request
    assert request.image == ["/base/a.png", "/b.png"]
    assert request.video == "/base/../v.mp4"
    assert request.mask == str(tmp_path / "m.png")
    assert resolved(last_image="http://x/y.png").request.last_image == "http://x/y.png"


def test_lora_that_neither_exists_nor_looks_like_a_file_is_a_hub_id(card, tmp_path):
    (tmp_path / "here").mkdir()
    lora = [Adapter(path=path, weight=0.5) for path in ("here", "user/name", "gone.safetensors", "./gone")]
    resolved_request = resolve(GenerationRequest(lora=lora), RunConfig(), card, tmp_path).request.lora
    assert [adapter.path for adapter in resolved_request] == [
        str(tmp_path / "here"),
        "user/name",
        str(tmp_path / "gone.safetensors"),
        str(tmp_path / "gone"),
    ]
    assert {adapter.weight for adapter in resolved_request} == {0.5}


def test_explicit_seed_counts_up_and_wraps():
    assert sample_seeds(5, 3, 0, "a") == (5, 6, 7)
    assert sample_seeds(MAX_SEED, 2, 0, "a") == (MAX_SEED, 0)
    assert sample_seeds(0, 1, 9, "b") == (0,)


def test_derived_seed_of_a_fixed_request_never_changes():
    assert sample_seeds(None, 2, 0, "00000") == (204221791, 3071307408)


def test_derived_seeds_depend_on_base_seed_id_and_sample_only():
    seen = {
        seed for base in (0, 1, 11) for name in ("a", "1\na", "日本") for seed in sample_seeds(None, 12, base, name)
    }
    assert len(seen) == 3 * 3 * 12
    assert all(0 <= seed < 2**32 for seed in seen)
    assert sample_seeds(None, 5, 0, "a")[:2] == sample_seeds(None, 2, 0, "a")


@pytest.mark.parametrize(
    ("path", "absolute"),
    [
        ("~/start.png", "/home/me/start.png"),
        ("~", "/home/me"),
        ("pictures/~/a.png", "/base/pictures/~/a.png"),
        ("~nobody-of-that-name/a.png", "/base/~nobody-of-that-name/a.png"),
        ("$HOME/a.png", "/base/$HOME/a.png"),
    ],
)
def test_tilde_starts_at_the_home_folder(resolved, monkeypatch, path, absolute):
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.chdir("/")
    fields = {"image": path, "video": path, "lora": [Adapter(path=f"{path}.safetensors")]}
    for request in (resolved(**fields).request, resolved(defaults=fields).request):
        assert request.video in (absolute, absolute.removeprefix("/base"))
        assert request.image == request.video
        assert request.lora[0].path.startswith("/")


def test_number_in_the_pipelines_own_word_is_that_of_the_field(card):
    card = structs.replace(card, parameters=(*card.parameters, "frames", "frame_rate"))
    request = GenerationRequest(extra={"frames": 5, "frame_rate": 12, "eta": 0.5})
    full = resolve(request, RunConfig(), card, Path())
    assert (full.request.num_frames, full.request.fps, full.request.extra) == (5, 12.0, {"eta": 0.5})
    assert (full.explicit.num_frames, full.explicit.fps) == (5, 12.0)
    flags = RunConfig(defaults=GenerationRequest(num_frames=13, seconds=None))
    assert resolve(request, flags, card, Path()).request.num_frames == 5
    for extra in ({"frames": True}, {"frames": "5"}, {"frames": 0}, {"video_length": 5}):
        kept = resolve(GenerationRequest(extra=extra), RunConfig(), card, Path()).request
        assert (kept.num_frames, kept.extra) == (9, extra)
    kept = resolve(GenerationRequest(num_frames=13, extra={"frames": 5}), RunConfig(), card, Path()).request
    assert (kept.num_frames, kept.extra) == (13, {"frames": 5})
