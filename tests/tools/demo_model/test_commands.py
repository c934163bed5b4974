"""The commands run from a checkout."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("module", ["tools.demo_model", "tools.demo_model.evaluate"])
def test_help_names_the_command(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", module, "--help"], cwd=ROOT, capture_output=True, check=True, text=True
    )
    assert done.stdout.startswith(f"usage: python -m {module} ")
