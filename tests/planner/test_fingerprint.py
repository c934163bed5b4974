"""What makes a request another one."""

import msgspec
import pytest

from omni_cli.config import EngineConfig, Tuning, VideoOutputTransport
from omni_cli.request import Adapter, ModelInfo

INFO = ModelInfo(id="demo", revision="abc", pipeline="WanPipeline", dtype="float32")
VERSIONS = {"torch": "2.13.0", "diffusers": "0.42.1", "transformers": "5.1.0"}


@pytest.fixture
def of(planner, ask):
    """of(plan={...}, index=..., **fields): the fingerprint."""

    def fingerprint(plan=None, index=0, **fields) -> str:
        return planner(**(plan or {})).plan(ask(index, **{"id": "a", "prompt": "p", **fields})).fingerprint

    return fingerprint


def test_it_is_this_very_hash_for_ever(of):
    assert of() == "fb5d1e885c9482c4b25b094e78e258bb13f05489814bab4238acb4dd7fe6a16f"


@pytest.mark.parametrize(
    "fields",
    [
        {"prompt": "q"},
        {"negative_prompt": ""},
        {"seed": 1},
        {"num_outputs": 2},
        {"height": 32},
        {"fps": 9.0},
        {"num_frames": 5},
        {"guidance_scale": 1.0},
        {"format": "webm"},
        {"interpolate": 2},
        {"extra": {"max_sequence_length": 3}},
        {"lora": [Adapter(path="user/name")]},
        {"id": "b"},
    ],
)
def test_what_the_request_says_counts(of, fields):
    assert of(**fields) != of()


@pytest.mark.parametrize(
    "plan",
    [
        {"info": msgspec.structs.replace(INFO, revision="abd")},
        {"info": msgspec.structs.replace(INFO, dtype="bfloat16")},
        {"info": msgspec.structs.replace(INFO, id="other")},
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
        {"seed": 1},
    ],
)
def test_the_model_the_libraries_and_lossy_settings_count(of, plan):
    assert of(plan) != of()


def test_a_constant_keyword_of_the_card_counts(of, card):
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
def test_how_it_is_run_and_wrapped_does_not_count(of, plan):
    assert of(plan) == of()


def test_names_and_place_do_not_count_where_the_seed_is_said(of):
    assert of(seed=3, id="a") == of(seed=3, id="b", output="x/y.mp4", index=9)


def test_a_said_default_is_no_difference(of):
    assert of(height=64, fps=8.0, format="mp4", num_outputs=1) == of()
    assert of(format="jpg", num_frames=1) == of(format="jpeg", num_frames=1)
    assert of(extra={"a": 1, "b": 2}) == of(extra={"b": 2, "a": 1})


def test_quality_counts_for_lossy_pictures_only(of):
    low = {"output": {"quality": 10}}
    assert of(low, num_frames=1, format="jpeg") != of(num_frames=1, format="jpeg")
    assert of(low, num_frames=1, format="png") == of(num_frames=1, format="png")


@pytest.mark.parametrize(
    "field", ["image", "last_image", "mask", "video", "prompt_embeds", "latents", "lora", "extra", "list"]
)
def test_inputs_count_by_content_and_not_by_name(of, tmp_path, field):
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


def test_a_card_that_reads_the_output_otherwise_counts(of, card):
    own = msgspec.structs.replace(card, value_range=(0.0, 1.0))
    assert of({"card": own}) != of()


def test_the_file_that_makes_frames_between_counts_where_it_is_used(of, tmp_path):
    path = tmp_path / "rife.pt"
    seen = set()
    for content in (b"one", b"two"):
        path.write_bytes(content)
        engine = {"engine": EngineConfig(interpolator=str(path))}
        seen |= {of(engine, interpolate=2)}
        assert of(engine) == of()
        assert of(engine, interpolate=1) == of()
    assert len(seen | {of(interpolate=2)}) == 3


def test_a_folder_of_frames_counts_by_all_that_is_in_it(of, tmp_path):
    (tmp_path / "frames").mkdir()
    (tmp_path / "frames" / "1.png").write_bytes(b"one")
    before = of(video="frames")
    (tmp_path / "frames" / "2.png").write_bytes(b"two")
    assert of(video="frames") != before
