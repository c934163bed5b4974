"""What changes the fingerprint of a request, and what does not."""

import msgspec
import pytest

from omni_cli.config import EngineConfig, Tuning, VideoOutputTransport
from omni_cli.planner import fingerprint
from omni_cli.request import Adapter, ModelInfo

INFO = ModelInfo(id="demo", revision="abc", pipeline="WanPipeline", dtype="float32")
VERSIONS = {"torch": "2.13.0", "diffusers": "0.42.1", "transformers": "5.1.0"}


@pytest.fixture
def of(planner, ask):
    """of(plan={...}, index=..., **fields) gives the fingerprint of a request."""

    def fingerprint(plan=None, index=0, **fields) -> str:
        return planner(**(plan or {})).plan(ask(index, **{"id": "a", "prompt": "p", **fields})).fingerprint

    return fingerprint


def test_fingerprint_of_a_fixed_request_never_changes(of):
    assert of() == "044d77350eb8f22e7cbe41fdc85f2789795565806b737d8cc4cdfdcc265922e0"


@pytest.mark.parametrize(
    "fields",
    [
        {"prompt": "q"},
        {"negative_prompt": ""},
        {"height": 32},
        {"fps": 9.0},
        {"num_frames": 5},
        {"guidance_scale": 1.0},
        {"format": "webm"},
        {"interpolate": 2},
        {"extra": {"max_sequence_length": 3}},
        {"lora": [Adapter(path="user/name")]},
    ],
)
def test_fields_of_the_request_change_the_fingerprint(of, fields):
    assert of(**fields) != of()


@pytest.mark.parametrize(
    "plan",
    [
        {"info": msgspec.structs.replace(INFO, revision="abd")},
        {"info": msgspec.structs.replace(INFO, dtype="bfloat16")},
        {"info": msgspec.structs.replace(INFO, revision=None)},
        {"info": msgspec.structs.replace(INFO, pipeline="Other")},
        {"versions": {**VERSIONS, "torch": "3.0.0"}},
        {"versions": {**VERSIONS, "transformers": "4.57.0"}},
        {"model": {"variant": "fp16"}},
        {"model": {"tuning": Tuning(flow_shift=3.0)}},
        {"model": {"tuning": Tuning(vae_tiling=True)}},
        {"output": {"crf": 20}},
        {"output": {"codec": "av1"}},
        {"output": {"pix_fmt": "yuv444p"}},
        {"output": {"encoder_preset": "slow"}},
        {"output": {"video_format": "gif"}},
        {"defaults": {"num_inference_steps": 3}},
    ],
)
def test_model_libraries_and_lossy_settings_change_the_fingerprint(of, plan):
    assert of(plan) != of()


@pytest.mark.parametrize("spelling", ["models/x", "models/x/", "./models/x", "/somewhere/models/x", "owner/x", "demo"])
def test_spelling_of_a_model_does_not_change_the_fingerprint(of, spelling):
    info = msgspec.structs.replace(INFO, id=spelling)
    assert of({"info": info, "model": {"model": spelling}}) == of()


def test_model_without_a_revision_is_known_by_where_it_is(of, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m").mkdir()
    (tmp_path / "n").mkdir()
    (tmp_path / "link").symlink_to("m")

    def named(spelling):
        info = msgspec.structs.replace(INFO, id=spelling, revision=None)
        return of({"info": info, "model": {"model": spelling}})

    assert len({named(spelling) for spelling in ("m", "m/", "./m", str(tmp_path / "m"), "link", "n/../m")}) == 1
    assert len({named(spelling) for spelling in ("m", "n", "owner/m", "owner/n")}) == 4


def test_configuration_of_a_single_file_counts_by_content_if_it_is_local(of, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c").mkdir()
    assert of({"model": {"config": "c"}}) == of({"model": {"config": "./c/"}}) == of()
    assert len({of(), of({"model": {"config": "owner/c"}}), of({"model": {"config": "owner/d"}})}) == 3


def test_constant_keyword_of_the_card_changes_the_fingerprint(of, card):
    assert of({"card": msgspec.structs.replace(card, call={"max_sequence_length": 32})}) != of()


@pytest.mark.parametrize(
    "plan",
    [
        {"versions": {**VERSIONS, "torch": "2.14.1", "pillow": "99"}},
        {
            "engine": EngineConfig(
                async_output=False, batch_size=8, transport=VideoOutputTransport(enable_device_postprocess=False)
            )
        },
        {"output": {"png_compression": 9, "metadata": False, "name_template": "x-{id}", "quality": 10}},
        {"model": {"device": "cuda"}},
        {"model": {"tuning": Tuning(offload="group")}},
    ],
)
def test_engine_and_container_settings_do_not_change_the_fingerprint(of, plan):
    assert of(plan) == of()


def test_float_arrays_change_the_fingerprint_of_arrays_alone(of):
    floats = {"output": {"float_arrays": True}}
    assert of(floats, format="npy") != of(format="npy")
    assert of(floats, format="mkv") == of(format="mkv")


def test_names_seeds_and_number_of_outputs_do_not_change_the_fingerprint(of):
    assert of(id="a") == of(id="b", output="x/y.mp4", index=9, seed=7, num_outputs=3)
    assert of({"seed": 1}) == of()


def test_explicit_default_does_not_change_the_fingerprint(of):
    assert of(height=64, fps=8.0, format="mp4", num_outputs=1) == of()
    assert of(format="jpg", num_frames=1) == of(format="jpeg", num_frames=1)
    assert of(extra={"a": 1, "b": 2}) == of(extra={"b": 2, "a": 1})


def test_quality_changes_the_fingerprint_of_lossy_pictures_only(of):
    low = {"output": {"quality": 10}}
    assert of(low, num_frames=1, format="jpeg") != of(num_frames=1, format="jpeg")
    assert of(low, num_frames=1, format="png") == of(num_frames=1, format="png")


@pytest.mark.parametrize(
    "field", ["image", "last_image", "mask", "video", "prompt_embeds", "latents", "lora", "extra", "list"]
)
def test_inputs_are_fingerprinted_by_content(of, tmp_path, field):
    for name, data in (("a", b"one"), ("b", b"one"), ("c", b"two")):
        (tmp_path / f"{name}.bin").write_bytes(data)

    def reading(name):
        path = f"{name}.bin"
        special = {
            "lora": {"lora": [Adapter(path=path)]},
            "extra": {"extra": {"control_image": {"image": path}, "references": [{"mask": path}]}},
            "list": {"image": [path, path]},
        }
        return of(**special.get(field, {field: path}))

    assert reading("a") == reading("b")
    assert len({of(), reading("a"), reading("c")}) == 3


def test_value_range_of_the_card_changes_the_fingerprint(of, card):
    with_range = msgspec.structs.replace(card, value_range=(0.0, 1.0))
    assert of({"card": with_range}) != of()


def test_interpolator_changes_the_fingerprint_of_interpolated_requests_only(of, tmp_path):
    path = tmp_path / "rife.pt"
    seen = set()
    for content in (b"one", b"two"):
        path.write_bytes(content)
        engine = {"engine": EngineConfig(interpolator=str(path))}
        seen |= {of(engine, interpolate=2)}
        assert of(engine) == of()
        assert of(engine, interpolate=1) == of()
    assert len(seen | {of(interpolate=2)}) == 3


def test_folder_of_frames_is_fingerprinted_by_all_its_files(of, tmp_path):
    (tmp_path / "frames").mkdir()
    (tmp_path / "frames" / "1.png").write_bytes(b"one")
    before = of(video="frames")
    (tmp_path / "frames" / "2.png").write_bytes(b"two")
    assert of(video="frames") != before


def test_the_major_version_of_compel_counts_for_weighted_prompts_alone(of, monkeypatch):
    weighted = {"prompt": "(p:2)", "prompt_weighting": "a1111"}
    found = {}
    for version in ("2.5.1", "2.9.0", "3.0.0"):
        monkeypatch.setattr(fingerprint, "compel_version", lambda version=version: version)
        found[version] = of(**weighted), of()
    assert found["2.5.1"] == found["2.9.0"]
    assert found["2.5.1"][0] != found["3.0.0"][0] != of(prompt="(p:2)")
    assert found["2.5.1"][1] == found["3.0.0"][1]
