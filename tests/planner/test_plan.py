"""Check and plan the rows of a run: all problems first, then the plans of this run's share."""

import pytest
from PIL import Image

from omni_cli.config import EngineConfig
from omni_cli.errors import Diagnostic, PromptFileError, UsageError
from omni_cli.media import Kind
from omni_cli.models.cards import Card
from omni_cli.prompts import read
from omni_cli.request import MAX_SEED


def test_plan_fills_in_every_field(planner, ask):
    plan = planner().plan(ask(index=4, num_outputs=2, seed=MAX_SEED))
    assert plan.id == "00004"
    assert plan.files == ("00004-0.mp4", "00004-1.mp4")
    assert plan.seeds == (MAX_SEED, 0)
    assert (plan.request.height, plan.request.num_frames, plan.request.fps, plan.request.format) == (64, 9, 8.0, "mp4")
    assert (len(plan.fingerprint), len(plan.shape.batch_key)) == (64, 32)


def test_plan_is_independent_of_other_requests(planner, ask):
    rows = [ask(i) for i in range(5)]
    assert list(planner().plan_all(rows))[3] == planner().plan(rows[3])


def test_duplicate_id_is_a_problem(planner, ask):
    with pytest.raises(PromptFileError) as refused:
        planner().check_all([ask(0, id="a"), ask(1, id="b"), ask(2, id="a", output="other")])
    assert str(refused.value) == 'prompts.jsonl:3:7: id: "a" is already the id of line 1; ids must differ'


def test_id_made_of_content_clashes_with_the_same_written_id(planner, ask):
    (row,) = planner().selected([ask(1, id=None)])
    with pytest.raises(PromptFileError, match=f'"{row.request.id}" is already the id of line 1'):
        planner().check_all([ask(0, id=row.request.id), ask(1, id=None)])


@pytest.mark.parametrize(
    ("first", "second", "field", "name"),
    [
        ({"id": "a/b"}, {"id": "a_b"}, "id", "a_b.mp4"),
        ({"id": "cat"}, {"id": "CAT"}, "id", "CAT.mp4"),
        ({"id": "x", "output": "y"}, {"id": "y"}, "id", "y.mp4"),
        ({"id": "y", "num_outputs": 2}, {"id": "x", "output": "y-1.mp4"}, "output", "y-1.mp4"),
        ({"id": "x", "output": "d.mp4"}, {"id": "y", "output": "D.mp4/e.mp4"}, "output", "D.mp4/e.mp4"),
    ],
)
def test_two_requests_cannot_write_the_same_file(planner, ask, first, second, field, name):
    with pytest.raises(PromptFileError) as refused:
        planner().check_all([ask(0, **first), ask(5, **second)])
    assert [str(problem) for problem in refused.value.problems] == [
        f'prompts.jsonl:6:7: {field}: the file "{name}" clashes with a file of line 1; '
        "names are compared without case; give it another name with output"
    ]


def test_name_template_that_gives_equal_names_is_a_located_problem(planner, ask):
    with pytest.raises(PromptFileError, match="clashes with a file of line 1"):
        planner(output={"name_template": "{width}"}).check_all([ask(0), ask(1)])


def test_names_that_would_leave_the_folder_are_problems(planner, ask, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "way").symlink_to("/tmp")
    with pytest.raises(PromptFileError) as refused:
        planner().check_all([ask(0, output="../x"), ask(1, output="way/x"), ask(2, output="/x")])
    assert [(p.line, p.field) for p in refused.value.problems] == [(1, "output"), (2, "output"), (3, "output")]
    assert "leaves the output folder through a symbolic link" in refused.value.problems[1].cause


def test_problems_of_reading_and_of_checking_are_raised_together(planner, ask):
    read_problem = Diagnostic("is negative", field="seed", source="prompts.jsonl", line=2, column=1)
    with pytest.raises(PromptFileError) as refused:
        planner().check_all([ask(0, height=1), read_problem, ask(2, width=1)])
    assert [problem.line for problem in refused.value.problems] == [1, 2, 3]


def test_problems_past_the_maximum_are_counted(planner, ask):
    with pytest.raises(PromptFileError) as refused:
        planner().check_all(ask(i, height=16 * i + 1, width=1) for i in range(1, 1401))
    assert len(refused.value.problems) == 1001
    assert str(refused.value.problems[1]).endswith("(in 1,400 rows, first at line 2)")
    assert str(refused.value.problems[-1]) == "prompts.jsonl: and 401 more problems"
    assert refused.value.count == 2800


def test_wrong_flag_is_one_problem_and_names_no_place(planner, ask):
    with pytest.raises(PromptFileError) as refused:
        planner(defaults={"width": 854}).check_all([ask(0), ask(1, width=64), ask(2), ask(3, height=1)])
    assert str(refused.value).splitlines() == [
        "--width: 854 is not a multiple of 16; nearest are 848 and 864",
        "prompts.jsonl:4:7: height: 1 is not a multiple of 16; nearest is 16",
    ]
    assert refused.value.count == 2


def test_missing_file_of_a_flag_is_told_with_the_flag(planner, ask, image_card):
    with pytest.raises(PromptFileError) as refused:
        planner(card=image_card, defaults={"image": "none.png"}).check_all(ask(i) for i in range(3))
    assert (str(refused.value).startswith("--image: "), refused.value.count) == (True, 1)


def test_limit_stops_reading_the_source(planner, ask):
    def rows():
        yield from (ask(i) for i in range(3))
        raise AssertionError("read past the limit")

    assert planner(limit=3).check_all(rows()) == 3
    assert [plan.index for plan in planner(limit=3).plan_all(rows())] == [0, 1, 2]


def test_faulty_row_counts_towards_the_limit(planner, ask):
    faults = [Diagnostic(text, source="prompts.jsonl", line=1, column=1) for text in ("one", "two", "three")]
    with pytest.raises(PromptFileError) as refused:
        planner(limit=2).check_all([*faults, ask(1, height=1), ask(2, height=1)])
    assert len(refused.value.problems) == 4


def test_shards_partition_the_rows_and_keep_their_plans(planner, ask):
    rows = [ask(i) for i in range(30)]
    shares = [{plan.id for plan in planner(shard=(n, 3)).plan_all(rows)} for n in (1, 2, 3)]
    assert sum(map(len, shares)) == len(set().union(*shares)) == 30
    assert all(shares)
    assert [planner(shard=(n, 3)).check_all(rows) for n in (1, 2, 3)] == [len(share) for share in shares]
    whole = {plan.index: plan for plan in planner().plan_all(rows)}
    assert all(whole[plan.index] == plan for plan in planner(shard=(2, 3)).plan_all(rows))
    limited = {plan.id for plan in planner(shard=(2, 3), limit=20).plan_all(rows)}
    assert limited == {plan.id for plan in planner(limit=20).plan_all(rows)} & shares[1]


def test_rows_that_come_and_go_move_no_request_to_another_shard(planner, ask):
    rows = [ask(i, id=None, prompt=f"a {i}") for i in range(20)]
    before = {plan.id for plan in planner(shard=(1, 3)).plan_all(rows)}
    moved = [ask(0, id=None, prompt="new"), *(ask(i + 1, id=None, prompt=f"a {i}") for i in range(5, 20))]
    after = {plan.id for plan in planner(shard=(1, 3)).plan_all(moved)}
    kept = {plan.id for plan in planner().plan_all(moved)}
    assert after & before == before & kept


def test_clash_with_a_request_of_another_shard_is_a_problem(planner, ask):
    with pytest.raises(PromptFileError):
        planner(shard=(1, 2)).check_all([ask(0, id="a"), ask(1, id="a")])


@pytest.mark.parametrize("config", [{"limit": 0}, {"shard": (0, 0)}, {"shard": (4, 3)}, {"shard": (-1, 3)}])
def test_empty_limit_or_shard_is_a_usage_error(planner, config):
    with pytest.raises(UsageError, match="must be"):
        planner(**config)


def test_input_deleted_after_checking_does_not_fail_planning(planner, ask, tmp_path):
    Image.new("RGB", (4, 4)).save(tmp_path / "a.png")
    one = planner()
    whole = one.plan(ask(image="a.png"))
    (tmp_path / "a.png").unlink()
    planned = one.plan(ask(image="a.png"))
    assert planned.request == whole.request
    assert planned.fingerprint != whole.fingerprint


def test_problems_of_a_prompt_file_have_line_and_column(planner, tmp_path):
    path = tmp_path / "prompts.jsonl"
    path.write_text(
        '{"prompt": "a", "id": "A-B4"}\n{"prompt": "b", "size": "100x64"}\n{"prompt": "c", "custom_id": "a-b4"}\n'
    )
    with pytest.raises(PromptFileError) as refused:
        planner().check_all(read(path))
    assert [(p.line, p.column, p.field) for p in refused.value.problems] == [(2, 25, "width"), (3, 30, "id")]


@pytest.mark.parametrize("field", [{"id": "a.preview"}, {"id": "a", "output": "deep/A.Preview.png"}])
def test_file_cannot_have_the_name_of_a_preview(planner, ask, field):
    row = ask(0, num_frames=1, **field)
    planner().check_all([row])
    with pytest.raises(
        PromptFileError, match=r"ends in \.preview\.png, as the previews of --preview-every do; give it"
    ):
        planner(engine=EngineConfig(preview_every=2)).check_all([row])


def test_missing_interpolator_is_a_usage_error(planner):
    with pytest.raises(UsageError, match="--interpolator 'gone': no such file; give a TorchScript module"):
        planner(engine=EngineConfig(interpolator="gone"))


def test_plan_names_the_encoder_that_needs_floats(planner, ask):
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
def test_file_name_follows_the_format(planner, ask, fields, file):
    request = ask(id="a", **fields)
    assert planner().check(request) == []
    assert planner().plan(request).files == (file,)


def test_existing_folder_is_replaced_only_if_it_holds_frames(planner, ask, tmp_path):
    folder = tmp_path / "out/a"
    folder.mkdir(parents=True)
    (folder / "000000.png").touch()
    (folder / "audio.wav").touch()
    assert planner().check(ask(id="a", format="frames")) == []
    (folder / "notes.txt").touch()
    (problem,) = planner().check(ask(id="a", format="frames"))
    assert problem.cause == 'the file "a" is a folder there already, of other things than frames'


def test_each_folder_of_frames_is_checked(planner, ask, tmp_path):
    (tmp_path / "out/b").mkdir(parents=True)
    (tmp_path / "out/b/mine.txt").touch()
    check = planner().check
    assert check(ask(0, id="a", format="frames")) == []
    assert [problem.field for problem in check(ask(1, id="b", format="frames"))] == ["id"]


def test_default_format_of_audio_is_wav(planner, ask):
    plan = planner(card=Card(pipeline="StableAudioPipeline", kind=Kind.AUDIO)).plan(ask(id="a"))
    assert (plan.request.format, plan.files, plan.request.fps) == ("wav", ("a.wav",), None)
