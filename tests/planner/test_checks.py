"""What a card cannot do, in the words that people read."""

import msgspec
import pytest

from omni_cli.media import Kind
from omni_cli.models.cards import Card


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"height": 100}, "height: 100 is not a multiple of 16; nearest are 96 and 112"),
        ({"width": 8}, "width: 8 is not a multiple of 16; nearest is 16"),
        ({"num_frames": 8}, "num_frames: 8 is not 4·k + 1; nearest are 5 and 9"),
        ({"num_frames": 2}, "num_frames: 2 is not 4·k + 1; nearest are 1 and 5"),
        ({"strength": 0.5}, "strength: WanPipeline takes no strength; leave it out"),
        (
            {"format": "png"},
            "format: png cannot hold video output; formats for video: webp, avif, mp4, webm, mov, mkv, gif, frames, npy, npz, safetensors, latent",
        ),
        (
            {"format": "mp4", "num_frames": 1},
            "format: mp4 cannot hold image output; formats for image: png, jpeg, webp, avif, png16, npy, npz, safetensors, latent",
        ),
        (
            {"output": "a.png"},
            "output: png cannot hold video output; formats for video: webp, avif, mp4, webm, mov, mkv, gif, frames, npy, npz, safetensors, latent",
        ),
        ({"output": "a.webm", "format": "mp4"}, "output: ends in .webm, but format is mp4; make them agree"),
        (
            {"output": "a.mp3"},
            "output: .mp3 cannot be written; use one of avif, flac, frames, gif, jpeg, jpg, latent, mkv, mov, mp4, npy, npz,"
            " png, png16, safetensors, wav, wav16, webm, webp",
        ),
        ({"format": "gif", "fps": 60.0}, "fps: format gif takes fps above 0 and up to 50, not 60"),
        (
            {"extra": {"max_sequence_lenth": 9}},
            'extra: WanPipeline takes no "max_sequence_lenth"; did you mean max_sequence_length?',
        ),
        ({"extra": {"generator": 1}}, 'extra: "generator" is set by omni-gen; leave it out'),
        ({"extra": {"prompt": "x"}}, 'extra: "prompt" is a field of its own; move it out of extra'),
        (
            {"extra": {"num_videos_per_prompt": 2}},
            'extra: "num_videos_per_prompt" is what num_outputs is for; use num_outputs',
        ),
    ],
)
def test_a_problem_says_where_what_and_what_instead(planner, ask, fields, problem):
    assert [str(found) for found in planner().check(ask(index=2, **fields))] == [f"prompts.jsonl:3:7: {problem}"]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"height": 32, "width": 256, "num_frames": 17, "fps": 24.0, "seed": 1, "num_outputs": 3},
        {"num_frames": 1, "format": "jpg"},
        {"output": "a/b.mp4", "format": "mp4"},
        {"extra": {"max_sequence_length": 32}},
    ],
)
def test_what_the_card_takes_is_no_problem(planner, ask, fields):
    assert planner().check(ask(**fields)) == []


def test_a_value_of_a_flag_is_named_as_one(planner, ask):
    check = planner(defaults={"height": 100, "num_frames": 4, "true_cfg_scale": 2.0}).check
    assert [found.message for found in check(ask())] == [
        "100 (from --height) is not a multiple of 16",
        "4 (from --num-frames) is not 4·k + 1",
        "WanPipeline takes no true_cfg_scale (from --true-cfg-scale)",
    ]
    assert planner(defaults={"format": "png"}).check(ask())[0].message == "png (from --format) cannot hold video output"


def test_every_problem_of_a_request_is_found_at_once(planner, ask):
    found = planner().check(ask(height=1, num_frames=2, format="png", image="none.png", id="a", output="../x"))
    assert [problem.field for problem in found] == ["height", "num_frames", "format", "image", "image", "output"]


def test_an_image_pipeline_makes_single_frames_only(planner, ask, image_card):
    check = planner(card=image_card).check
    assert check(ask(id="a", num_frames=1, fps=8.0)) == []
    assert [str(p) for p in check(ask(id="b", num_frames=9))] == [
        "prompts.jsonl:1:7: num_frames: 9: FluxPipeline makes no video; leave it out, or write 1"
    ]


def test_a_mask_is_known_by_the_names_that_pipelines_have_for_it(planner, ask, image_card, tmp_path):
    check = planner(card=image_card).check
    assert [problem.field for problem in check(ask(mask="m.png"))] == ["mask"]
    assert "cannot be read" in check(ask(index=1, mask="m.png"))[0].message


def test_a_card_without_parameters_refuses_none(planner, ask, card):
    unknown = msgspec.structs.replace(card, parameters=())
    assert planner(card=unknown).check(ask(strength=0.5, extra={"anything": 1})) == []


def test_a_video_without_fps_is_refused_unless_its_format_has_no_clock(planner, ask):
    check = planner(card=Card(pipeline="X", kind=Kind.VIDEO)).check
    assert [str(p) for p in check(ask(id="a"))] == [
        "prompts.jsonl:1:7: fps: format mp4 needs fps: set it in the request or with --fps"
    ]
    assert check(ask(id="b", format="npy")) == []
    assert check(ask(id="c", fps=5.0)) == []


def test_sound_is_written_as_wav_and_not_as_a_picture(planner, ask):
    sound = planner(card=Card(pipeline="StableAudioPipeline", kind=Kind.AUDIO))
    assert sound.check(ask(id="a")) == []
    (problem,) = sound.check(ask(id="b", format="png"))
    assert (problem.field, problem.message) == ("format", "png cannot hold audio output")
    assert problem.allowed == "formats for audio: wav, wav16, flac, npy, npz, safetensors, latent"


@pytest.mark.parametrize("value", [2**70, {"deep": object()}, "\ud800"])
def test_a_value_that_cannot_reach_the_worker_is_refused(planner, ask, value):
    found = planner().check(ask(extra={"max_sequence_length": value}))
    assert "cannot be passed on" in found[-1].message


def test_hostile_keys_are_shown_escaped(planner, ask):
    (problem,) = planner().check(ask(extra={"\x1b[31m\u202e": 1}))
    assert str(problem).isprintable()


def test_values_of_extra_are_judged_by_the_signature(planner, ask):
    (problem,) = planner().check(ask(extra={"max_sequence_length": "long"}))
    assert problem.message == '"max_sequence_length" cannot be the text "long"'
    assert problem.allowed == "give a whole number"


def test_of_an_input_clip_the_number_of_frames_says_how_much_is_read(planner, ask, card):
    taking = msgspec.structs.replace(
        card, parameters=("prompt", "video"), defaults=msgspec.structs.replace(card.defaults)
    )
    fields = {"num_frames": 9, "video": "none.mp4"}
    assert [problem.field for problem in planner(card=taking).check(ask(id="a", **fields))] == ["video"]
    assert "num_frames" in [p.field for p in planner(card=taking).check(ask(id="b", num_frames=9))]
