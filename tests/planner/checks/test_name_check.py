"""Ids and files of all requests: unique, and placeable in the output folder."""

from omni_cli.config import EngineConfig, OutputConfig, RunConfig
from omni_cli.planner.checks.name_check import NameCheck


def test_second_row_with_an_id_is_a_problem(ask, tmp_path):
    check = NameCheck(RunConfig(output=OutputConfig(output_dir=str(tmp_path))))
    assert check.id_problems(ask(0, id="a")) == []
    (problem,) = check.id_problems(ask(4, id="a"))
    assert str(problem) == 'prompts.jsonl:5:7: id: "a" is already the id of line 1; ids must differ'


def test_first_file_that_cannot_be_placed_is_the_problem_and_later_ones_stay_free(ask, tmp_path):
    (tmp_path / "b.png").mkdir()
    check = NameCheck(RunConfig(output=OutputConfig(output_dir=str(tmp_path))))
    (problem,) = check.file_problems(ask(0), ["a.png", "b.png", "c.png"])
    assert problem.cause == 'the file "b.png" is a folder there already'
    assert check.file_problems(ask(1), ["c.png"]) == []
    (problem,) = check.file_problems(ask(2, output="a"), ["a.png"])
    assert (problem.field, problem.remedy) == ("output", "give it another name with output")


def test_names_of_previews_are_reserved_only_if_there_are_previews(ask, tmp_path):
    output = OutputConfig(output_dir=str(tmp_path))
    for every, count in ((0, 0), (2, 1)):
        check = NameCheck(RunConfig(output=output, engine=EngineConfig(preview_every=every)))
        assert len(check.file_problems(ask(), ["x/a.Preview.png"])) == count
