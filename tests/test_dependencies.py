"""A required package that is missing or too old is named before anything is started, with the command that mends it."""

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from omni_cli.api import OmniGen
from omni_cli.dependencies import MODEL_PACKAGES, UnmetRequirement, describe_unmet, unmet_requirements
from omni_cli.errors import DependencyError

ROOT = Path(__file__).parent.parent
PROMPTS = ROOT / "prompts" / "demo.jsonl"

Distribution = Callable[..., Path]


@pytest.fixture
def distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Distribution:
    """Return a function that writes a package's metadata where it is found before the installed one."""
    folder = tmp_path / "site"
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), str(ROOT)]))

    def write(name: str, version: str, *requires: str) -> Path:
        info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
        shutil.rmtree(info, ignore_errors=True)
        info.mkdir(parents=True)
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        lines += [f"Requires-Dist: {requirement}" for requirement in requires]
        (info / "METADATA").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return folder

    return write


def declared() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requirements: list[str] = project["dependencies"]
    return requirements


def omni_gen(*args: str | Path, isolated: bool = False) -> "subprocess.CompletedProcess[str]":
    """Run the program; `isolated` hides all installed packages."""
    command = [sys.executable, *(["-S"] if isolated else []), "-m", "omni_cli", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_installed_packages_meet_what_is_declared(distribution: Distribution) -> None:
    distribution("omni-gen", "1", *declared())
    assert unmet_requirements() == []


def test_too_old_package_is_named_with_the_remedy_before_the_run(distribution: Distribution, tmp_path: Path) -> None:
    distribution("omni-gen", "1", *declared())
    distribution("av", "16.0.1")
    outputs = tmp_path / "outputs"
    ended = omni_gen("run", PROMPTS, "-o", outputs)
    assert ended.returncode == 3
    floor = next(each for each in declared() if each.startswith("av>="))
    assert f"{floor}, found 16.0.1" in ended.stderr
    assert ended.stderr.rstrip().endswith(f"pip install '{floor}'")
    assert len(ended.stderr.splitlines()) == 1
    assert not outputs.exists()


def test_too_old_package_stops_the_api_as_well(distribution: Distribution) -> None:
    distribution("omni-gen", "1", *declared())
    distribution("diffusers", "0.36.0")
    with pytest.raises(DependencyError, match=r"diffusers>=[\d.]+, found 0\.36\.0"):
        OmniGen()


def test_prompt_file_is_checked_without_the_packages_of_the_model(distribution: Distribution) -> None:
    distribution("omni-gen", "1", "torch>=999", "msgspec")
    assert omni_gen("validate", PROMPTS).returncode == 0
    assert omni_gen("run", "--help").returncode == 0
    assert "torch>=999" in omni_gen("info", "--no-devices").stdout
    assert "torch>=999" in omni_gen("run", PROMPTS).stderr


def test_missing_packages_are_named_even_if_the_command_line_cannot_be_imported(distribution: Distribution) -> None:
    distribution("omni-gen", "1", "msgspec>=0.19", "typer>=0.26", "packaging", "pytest; extra == 'test'")
    ended = omni_gen("--help", isolated=True)
    assert ended.returncode == 3
    assert "Traceback" not in ended.stderr
    assert ended.stderr.rstrip().endswith("pip install msgspec typer packaging")


def test_import_error_with_all_packages_in_place_is_not_hidden(distribution: Distribution) -> None:
    folder = distribution("omni-gen", "1")
    (folder / "typer.py").write_text("raise ImportError('broken typer')", encoding="utf-8")
    ended = omni_gen("--help")
    assert ended.returncode == 1
    assert "broken typer" in ended.stderr


@pytest.mark.parametrize(
    ("installed", "met"),
    [
        ("2.13.0+cpu", True),
        ("2.13.0a0+git1234", True),
        ("2.14.0.dev20260101+cu130", True),
        ("2.12.9", False),
        ("vendor build", True),
    ],
)
def test_builds_of_a_vendor_count_as_their_release(distribution: Distribution, installed: str, met: bool) -> None:
    distribution("omni-gen", "1", "torch>=2.13")
    distribution("torch", installed)
    assert unmet_requirements() == ([] if met else [UnmetRequirement("torch>=2.13", installed)])


def test_extras_and_other_systems_are_not_required(distribution: Distribution) -> None:
    distribution("omni-gen", "1", "no-such-a; extra == 'plot'", 'no-such-b; sys_platform == "plan9"', "no-such-c[x]>=1")
    assert unmet_requirements() == [UnmetRequirement("no-such-c>=1", None)]
    assert describe_unmet(unmet_requirements()).endswith("pip install 'no-such-c>=1'")


def test_source_tree_that_is_not_installed_has_nothing_to_check() -> None:
    assert unmet_requirements(distribution="no-such-distribution") == []


def test_packages_of_the_model_are_declared() -> None:
    assert {name for name in MODEL_PACKAGES if not any(each.startswith(f"{name}>=") for each in declared())} == set()
