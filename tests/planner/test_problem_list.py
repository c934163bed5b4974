"""Problems of many rows as few lines, with a true count and in bounded memory."""

import pytest

from omni_cli.errors import Diagnostic, PromptFileError
from omni_cli.planner.problem_list import MAX_PROBLEMS, ProblemList


def problem(line: int, cause: str = "is odd", column: int = 3, source: str = "p.csv") -> Diagnostic:
    """Return a problem of the field width."""
    return Diagnostic(cause, "make it even", "width", source=source, line=line, column=column)


def raised(*problems: Diagnostic) -> PromptFileError:
    """Return the error of a list of `problems`."""
    listed = ProblemList()
    listed.add(problems)
    with pytest.raises(PromptFileError) as refused:
        listed.raise_if_any()
    return refused.value


@pytest.mark.parametrize(
    ("problems", "suffix", "count"),
    [
        ([problem(1)], "", 1),
        ([problem(1), problem(4)], " (also at line 4)", 2),
        ([problem(1), problem(4), problem(9)], " (also at lines 4, 9)", 3),
        ([problem(n) for n in range(1, 6)], " (also at lines 2, 3, 4, 5)", 5),
        ([problem(n) for n in range(1, 7)], " (in 6 rows, first at line 1)", 6),
        ([problem(1 + n) for n in range(20_000)], " (in 20,000 rows, first at line 1)", 20_000),
        # Rows of a JSON array on one line, and a row that has the problem twice at one place.
        ([problem(1, column=3), problem(1, column=90)], " (in 2 rows, first at line 1)", 2),
        ([problem(1), problem(1)], "", 1),
        # Requests of a program have no lines.
        ([problem(0, source=f"requests[{n}]") for n in range(3)], " (in 3 rows, this is the first)", 3),
    ],
)
def test_equal_problems_are_one_with_the_number_of_rows(problems: list[Diagnostic], suffix: str, count: int) -> None:
    error = raised(*problems)
    assert str(error) == f"{problems[0]}{suffix}"
    assert error.count == count


@pytest.mark.parametrize(
    "other",
    [
        problem(2, cause="is large"),
        Diagnostic("is odd", "make it even", "height", source="p.csv", line=2, column=3),
        Diagnostic("is odd", "add one", "width", source="p.csv", line=2, column=3),
    ],
)
def test_problems_that_differ_in_field_cause_or_remedy_stay_apart(other: Diagnostic) -> None:
    assert raised(problem(1), other, problem(3)).problems[1] == other


def test_problem_met_before_is_counted_past_the_maximum_too() -> None:
    many = [problem(n, cause=f"is {n}") for n in range(1, MAX_PROBLEMS + 3)]
    error = raised(*many, problem(5000, cause="is 1"))
    assert len(error.problems) == MAX_PROBLEMS + 1
    assert (error.problems[0].also, error.problems[-1].cause) == ((5000,), "and 2 more problems")
    assert error.count == MAX_PROBLEMS + 3


def test_no_problem_raises_nothing() -> None:
    ProblemList().raise_if_any()
