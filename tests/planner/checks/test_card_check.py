"""Checks of a request against its pipeline's card, by the messages that people read."""

import ast

import msgspec
import pytest

from omni_cli.media import Kind
from omni_cli.models.cards import Card
from omni_cli.models.signature import value_types
from omni_cli.planner.checks.card_check import describe_value, type_remedy

VIDEO_FORMATS = "formats for video: webp, avif, mp4, webm, mov, mkv, gif, frames, npy, npz, safetensors, latent"


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
            f"format: png cannot hold video output; {VIDEO_FORMATS}",
        ),
        (
            {"format": "mp4", "num_frames": 1},
            "format: mp4 cannot hold image output; "
            "formats for image: png, jpeg, webp, avif, png16, npy, npz, safetensors, latent",
        ),
        (
            {"output": "a.png"},
            f"output: png cannot hold video output; {VIDEO_FORMATS}",
        ),
        ({"output": "a.webm", "format": "mp4"}, "output: ends in .webm, but format is mp4; make them agree"),
        (
            {"output": "a.mp3"},
            "output: .mp3 cannot be written; use one of avif, flac, frames, gif, jpeg, jpg, latent, mkv, mov, mp4, npy,"
            " npz, png, png16, safetensors, wav, wav16, webm, webp",
        ),
        ({"format": "gif", "fps": 60.0}, "fps: format gif takes fps above 0 and up to 50, not 60"),
        (
            {"extra": {"max_sequence_lenth": 9}},
            'extra: WanPipeline takes no "max_sequence_lenth"; did you mean "max_sequence_length"?',
        ),
        ({"extra": {"generator": 1}}, 'extra: "generator" is set by omni-gen; leave it out'),
        ({"extra": {"prompt": "x"}}, 'extra: "prompt" is a field of its own; move it out of extra'),
        (
            {"num_frames": 5, "extra": {"frames": 9}},
            'extra: "frames" is num_frames, which is given too; keep num_frames alone',
        ),
        (
            {"extra": {"num_videos_per_prompt": 2}},
            'extra: "num_videos_per_prompt" is what num_outputs is for; use num_outputs',
        ),
    ],
)
def test_problem_names_place_cause_and_remedy(planner, ask, fields, problem):
    assert [str(one) for one in planner().check(ask(index=2, **fields))] == [f"prompts.jsonl:3:7: {problem}"]


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
def test_values_that_the_card_allows_pass(planner, ask, fields):
    assert planner().check(ask(**fields)) == []


def test_value_of_a_flag_is_named_with_the_flag(planner, ask):
    check = planner(defaults={"height": 100, "num_frames": 4, "true_cfg_scale": 2.0}).check
    assert [str(one) for one in check(ask())] == [
        "--height: 100 is not a multiple of 16; nearest are 96 and 112",
        "--num-frames: 4 is not 4·k + 1; nearest are 1 and 5",
        "--true-cfg-scale: WanPipeline takes no true_cfg_scale; leave it out",
    ]
    (problem,) = planner(defaults={"format": "png"}).check(ask())
    assert str(problem).startswith("--format: png cannot hold video output; ")


def test_all_problems_of_a_request_are_found_at_once(planner, ask):
    problems = planner().check(ask(height=1, num_frames=2, format="png", image="none.png", id="a", output="../x"))
    assert [problem.field for problem in problems] == ["height", "num_frames", "format", "image", "image", "output"]


def test_image_pipeline_renders_single_frames_only(planner, ask, image_card):
    check = planner(card=image_card).check
    assert check(ask(id="a", num_frames=1, fps=8.0)) == []
    assert [str(p) for p in check(ask(id="b", num_frames=9))] == [
        "prompts.jsonl:1:7: num_frames: 9: FluxPipeline makes no video; leave it out, or write 1"
    ]


def test_mask_is_accepted_under_each_of_its_keywords(planner, ask, image_card, tmp_path):
    check = planner(card=image_card).check
    assert [problem.field for problem in check(ask(mask="m.png"))] == ["mask"]
    assert "cannot be read" in check(ask(index=1, mask="m.png"))[0].cause


def test_card_without_parameters_accepts_any_keyword(planner, ask, card):
    unknown = msgspec.structs.replace(card, parameters=())
    assert planner(card=unknown).check(ask(strength=0.5, extra={"anything": 1})) == []


def test_video_format_with_a_clock_needs_fps(planner, ask):
    check = planner(card=Card(pipeline="X", kind=Kind.VIDEO)).check
    assert [str(p) for p in check(ask(id="a"))] == [
        "prompts.jsonl:1:7: fps: format mp4 needs fps: set it in the request or with --fps"
    ]
    assert check(ask(id="b", format="npy")) == []
    assert check(ask(id="c", fps=5.0)) == []


def test_picture_format_cannot_hold_audio(planner, ask):
    sound = planner(card=Card(pipeline="StableAudioPipeline", kind=Kind.AUDIO))
    assert sound.check(ask(id="a")) == []
    (problem,) = sound.check(ask(id="b", format="png"))
    assert (problem.field, problem.cause) == ("format", "png cannot hold audio output")
    assert problem.remedy == "formats for audio: wav, wav16, flac, npy, npz, safetensors, latent"


@pytest.mark.parametrize("value", [2**70, {"deep": object()}, "\ud800"])
def test_value_that_cannot_be_encoded_is_a_problem(planner, ask, value):
    problems = planner().check(ask(extra={"max_sequence_length": value}))
    assert "cannot be passed on" in problems[-1].cause


def test_hostile_keys_are_escaped_in_messages(planner, ask):
    (problem,) = planner().check(ask(extra={"\x1b[31m\u202e": 1}))
    assert str(problem).isprintable()


def test_values_of_extra_are_checked_against_the_signature(planner, ask):
    (problem,) = planner().check(ask(extra={"max_sequence_length": "long"}))
    assert problem.cause == '"max_sequence_length" cannot be the text "long"'
    assert problem.remedy == "give a whole number"


def test_num_frames_with_an_input_clip_is_no_keyword_of_the_call(planner, ask, card):
    with_clip = msgspec.structs.replace(
        card, parameters=("prompt", "video"), defaults=msgspec.structs.replace(card.defaults)
    )
    fields = {"num_frames": 9, "video": "none.mp4"}
    assert [problem.field for problem in planner(card=with_clip).check(ask(id="a", **fields))] == ["video"]
    assert "num_frames" in [p.field for p in planner(card=with_clip).check(ask(id="b", num_frames=9))]


IMAGE, TENSOR = {"image": "a.png"}, {"tensor": "a.npy"}


@pytest.mark.parametrize(
    ("annotation", "fitting", "others"),
    [
        ("int", [3, None], [3.0, True, "3", [3], IMAGE, {}]),
        ("float | None", [3, 0.5], [False, "x", TENSOR]),
        ("bool", [True], [1, "true"]),
        ("Optional[Union[str, List[str]]]", ["x", ["x", "y"]], [3, [3], {}, IMAGE]),
        ("list[float]", [[0.5, 1]], [0.5, ["x"], [None, True]]),
        ("tuple[int, int]", [[8, 8]], [[8.5, 8], "8x8"]),
        ("dict[str, Any] | None", [{"scale": 1}, {}], [3, IMAGE, []]),
        ("PipelineImageInput", [IMAGE, {"video": "v"}, [IMAGE], [[IMAGE]]], ["a.png", 3, {"path": "a.png"}]),
        ("torch.Tensor | None", [TENSOR], ["a.npy", 3, [[1.0]], {}]),
        ("list[torch.FloatTensor]", [[TENSOR], TENSOR], ["a.npy", 1.5]),
        ("Callable[[int], None] | int", [3, "x", {}], []),
        ("Any", [3, IMAGE, "x"], []),
    ],
)
def test_values_are_checked_against_annotations(annotation, fitting, others):
    kinds = value_types(ast.parse(annotation, mode="eval").body)
    assert [type_remedy(value, kinds) for value in fitting] == [None] * len(fitting)
    assert all(type_remedy(value, kinds) for value in others)


def test_remedy_says_what_to_write_instead():
    assert type_remedy("a.png", frozenset({"image", "image*", "null"})) == (
        'give {"image": "file.png"} or a list of {"image": "file.png"}'
    )
    assert type_remedy(2.5, frozenset({"int"})) == "give a whole number"
    assert [describe_value(value) for value in ("a\x1b", True, IMAGE, [1], {})] == [
        'the text "a\\x1b"',
        "true",
        "a file (image)",
        "this list",
        "an object",
    ]
