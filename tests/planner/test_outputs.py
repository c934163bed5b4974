"""Formats, codecs and frames between, as planning sees them."""

import pytest

from omni_cli.config import EngineConfig
from omni_cli.errors import UsageError
from omni_cli.media import Kind
from omni_cli.models.cards import Card
from omni_cli.planner.batches import batch_key
from omni_cli.request import GenerationRequest


def test_an_interpolator_that_is_not_there_is_said_before_a_row_is_read(planner):
    with pytest.raises(UsageError, match="--interpolator 'gone': no such file; give a TorchScript module"):
        planner(engine=EngineConfig(interpolator="gone"))


def test_frames_between_share_a_call_and_latents_do_not(card):
    def key(**fields):
        return batch_key(GenerationRequest(prompt="x", num_frames=5, **fields), card)

    assert key(interpolate=2, format="webm") == key() == key(format="frames")
    assert key(format="latent") != key()


def test_a_plan_says_what_has_use_for_floats(planner, ask):
    assert planner().plan(ask()).floats_for == ""
    assert planner(output={"codec": "prores", "video_format": "mov"}).plan(ask()).floats_for == "prores in yuv422p10le"
    assert planner().plan(ask(format="png16", num_frames=1)).floats_for == "16-bit PNG"


@pytest.mark.parametrize(
    ("fields", "file"),
    [
        ({"format": "frames"}, "a"),
        ({"format": "frames", "output": "shots/one"}, "shots/one"),
        ({"output": "one.frames"}, "one.frames"),
        ({"format": "latent"}, "a.safetensors"),
        ({"format": "latent", "output": "x.safetensors"}, "x.safetensors"),
        ({"format": "png16", "output": "x.png", "num_frames": 1}, "x.png"),
        ({"output": "x.mov"}, "x.mov"),
        ({"output": "x."}, "x_.mp4"),
    ],
)
def test_files_are_named_by_their_format(planner, ask, fields, file):
    request = ask(id="a", **fields)
    assert planner().check(request) == []
    assert planner().plan(request).files == (file,)


def test_a_folder_of_frames_may_be_there_already_and_a_folder_of_others_may_not(planner, ask, tmp_path):
    folder = tmp_path / "out/a"
    folder.mkdir(parents=True)
    (folder / "000000.png").touch()
    (folder / "audio.wav").touch()
    assert planner().check(ask(id="a", format="frames")) == []
    (folder / "notes.txt").touch()
    (problem,) = planner().check(ask(id="a", format="frames"))
    assert problem.message == 'the file "a" is a folder there already, of other things than frames'


def test_two_rows_of_frames_are_checked_as_the_first(planner, ask, tmp_path):
    (tmp_path / "out/b").mkdir(parents=True)
    (tmp_path / "out/b/mine.txt").touch()
    check = planner().check
    assert check(ask(0, id="a", format="frames")) == []
    assert [problem.field for problem in check(ask(1, id="b", format="frames"))] == ["id"]


def test_sound_is_a_wav_without_being_told(planner, ask):
    plan = planner(card=Card(pipeline="StableAudioPipeline", kind=Kind.AUDIO)).plan(ask(id="a"))
    assert (plan.request.format, plan.files, plan.request.fps) == ("wav", ("a.wav",), None)
