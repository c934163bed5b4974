"""The test environments: constraints that equal the floors of pyproject.toml, and extras that the suite has."""

import tomllib
from pathlib import Path

from packaging.requirements import Requirement

from tools.environments import LOWEST, QUICK, constraints

ROOT = Path(__file__).parent.parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_constraints_are_the_lowest_versions_that_are_declared() -> None:
    assert LOWEST.read_text(encoding="utf-8") == constraints(), "run: python -m tools.environments constraints"
    pinned = {line.partition("==")[0] for line in constraints().splitlines()[1:]}
    assert {Requirement(each).name for each in PROJECT["dependencies"]} <= pinned


def test_the_suite_has_what_every_extra_needs() -> None:
    extras = PROJECT["optional-dependencies"]
    needed = {requirement for name, extra in extras.items() if name != "test" for requirement in extra}
    assert needed <= set(extras["test"])


def test_one_package_has_one_floor() -> None:
    everything = {
        *PROJECT["dependencies"],
        *(each for extra in PROJECT["optional-dependencies"].values() for each in extra),
    }
    names = [Requirement(each).name for each in everything]
    assert len(names) == len(set(names))


def test_the_quick_part_of_the_suite_exists() -> None:
    for place in QUICK:
        path, _, name = place.partition("::")
        assert (ROOT / path).exists()
        assert not name or f"def {name}(" in (ROOT / path).read_text(encoding="utf-8")
