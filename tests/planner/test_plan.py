"""Planning as the batch uses it: all problems first, then the plans of this run's share."""

import pytest
from PIL import Image

from omni_cli.config import EngineConfig
from omni_cli.errors import Problem, PromptFileError, UsageError
from omni_cli.prompts import read
from omni_cli.request import MAX_SEED


def test_a_plan_leaves_nothing_open(planner, ask):
    plan = planner().plan(ask(index=4, num_outputs=2, seed=MAX_SEED))
    assert plan.id == "00004"
    assert plan.files == ("00004-0.mp4", "00004-1.mp4")
    assert plan.seeds == (MAX_SEED, 0)
    assert (plan.request.height, plan.request.num_frames, plan.request.fps, plan.request.format) == (64, 9, 8.0, "mp4")
    assert (len(plan.fingerprint), len(plan.batch_key)) == (64, 32)


def test_a_plan_does_not_depend_on_the_other_requests(planner, ask):
    rows = [ask(i) for i in range(5)]
    assert list(planner().plan_all(rows))[3] == planner().plan(rows[3])


def test_an_id_may_be_used_once(planner, ask):
    with pytest.raises(PromptFileError) as refused:
        planner().check_all([ask(0, id="a"), ask(1, id="b"), ask(2, id="a", output="other")])
    assert str(refused.value) == 'prompts.jsonl:3:7: id: "a" is already the id of line 1; ids must differ'


def test_a_numbered_id_meets_a_written_one(planner, ask):
    with pytest.raises(PromptFileError, match='"00001" is already the id of line 1'):
        planner().check_all([ask(0, id="00001"), ask(1)])


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
def test_two_requests_may_not_write_one_file(planner, ask, first, second, field, name):
    with pytest.raises(PromptFileError) as refused:
        planner().check_all([ask(0, **first), ask(5, **second)])
    assert [str(problem) for problem in refused.value.problems] == [
        f'prompts.jsonl:6:7: {field}: the file "{name}" clashes with a file of line 1; names are compared without case; '
        "give it another name with output"
    ]


def test_a_template_without_a_field_that_differs_is_a_located_problem(planner, ask):
    with pytest.raises(PromptFileError, match="clashes with a file of line 1"):
        planner(output={"name_template": "{width}"}).check_all([ask(0), ask(1)])


def test_names_that_would_leave_the_folder_are_problems(planner, ask, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "way").symlink_to("/tmp")
    with pytest.raises(PromptFileError) as refused:
        planner().check_all([ask(0, output="../x"), ask(1, output="way/x"), ask(2, output="/x")])
    assert [(p.line, p.field) for p in refused.value.problems] == [(1, "output"), (2, "output"), (3, "output")]
    assert "leaves the output folder through a symbolic link" in refused.value.problems[1].message


def test_all_problems_come_at_once_with_those_of_reading(planner, ask):
    read_problem = Problem("prompts.jsonl", 2, 1, "seed", "is negative")
    with pytest.raises(PromptFileError) as refused:
        planner().check_all([ask(0, height=1), read_problem, ask(2, width=1)])
    assert [problem.line for problem in refused.value.problems] == [1, 2, 3]


def test_endless_problems_are_counted(planner, ask):
    with pytest.raises(PromptFileError) as refused:
        planner().check_all(ask(i, height=1, width=1) for i in range(700))
    assert len(refused.value.problems) == 1001
    assert str(refused.value.problems[-1]) == "prompts.jsonl:0:0: and 400 more problems"


def test_the_limit_reads_so_many_rows_and_not_one_further(planner, ask):
    def rows():
        yield from (ask(i) for i in range(3))
        raise AssertionError("read past the limit")

    assert planner(limit=3).check_all(rows()) == 3
    assert [plan.index for plan in planner(limit=3).plan_all(rows())] == [0, 1, 2]


def test_a_faulty_row_counts_towards_the_limit(planner, ask):
    faults = [Problem("prompts.jsonl", 1, 1, "", text) for text in ("one", "two", "three")]
    with pytest.raises(PromptFileError) as refused:
        planner(limit=2).check_all([*faults, ask(1, height=1), ask(2, height=1)])
    assert len(refused.value.problems) == 4


def test_shards_part_the_rows_without_moving_one(planner, ask):
    rows = [ask(i) for i in range(8)]
    shares = [[plan.index for plan in planner(shard=(n, 3)).plan_all(rows)] for n in (1, 2, 3)]
    assert shares == [[0, 3, 6], [1, 4, 7], [2, 5]]
    assert [planner(shard=(n, 3)).check_all(rows) for n in (1, 2, 3)] == [3, 3, 2]
    whole = {plan.index: plan for plan in planner().plan_all(rows)}
    assert all(whole[plan.index] == plan for plan in planner(shard=(2, 3)).plan_all(rows))
    assert [plan.index for plan in planner(shard=(2, 3), limit=5).plan_all(rows)] == [1, 4]


def test_every_shard_sees_a_clash_with_another_shard(planner, ask):
    with pytest.raises(PromptFileError):
        planner(shard=(1, 2)).check_all([ask(0, id="a"), ask(1, id="a")])


@pytest.mark.parametrize("config", [{"limit": 0}, {"shard": (0, 3)}, {"shard": (4, 3)}])
def test_a_selection_that_selects_nothing_is_refused(planner, config):
    with pytest.raises(UsageError, match="must be"):
        planner(**config)


def test_an_input_that_went_away_after_checking_is_its_requests_own_fault_and_not_the_runs(planner, ask, tmp_path):
    Image.new("RGB", (4, 4)).save(tmp_path / "a.png")
    one = planner()
    whole = one.plan(ask(image="a.png"))
    (tmp_path / "a.png").unlink()
    planned = one.plan(ask(image="a.png"))
    assert planned.request == whole.request
    assert planned.fingerprint != whole.fingerprint


def test_real_prompt_files_are_pointed_into(planner, tmp_path):
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"prompt": "a"}\n{"prompt": "b", "size": "100x64"}\n{"prompt": "c", "custom_id": "00000"}\n')
    with pytest.raises(PromptFileError) as refused:
        planner().check_all(read(path))
    assert [(p.line, p.column, p.field) for p in refused.value.problems] == [(2, 25, "width"), (3, 30, "id")]


@pytest.mark.parametrize("field", [{"id": "a.preview"}, {"id": "a", "output": "deep/A.Preview.png"}])
def test_a_file_may_not_be_named_like_a_preview_where_there_are_previews(planner, ask, field):
    row = ask(0, num_frames=1, **field)
    planner().check_all([row])
    with pytest.raises(
        PromptFileError, match=r"ends in \.preview\.png, as the previews of --preview-every do; give it"
    ):
        planner(engine=EngineConfig(preview_every=2)).check_all([row])
