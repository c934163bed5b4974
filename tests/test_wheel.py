"""The built wheel has everything that a run needs: installed away from the checkout, it renders with the demo model."""

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

LIST_FILES = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "omni_cli"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling", reason="hatchling builds the wheel")
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    return next(folder.glob("omni_gen-*.whl"))


def test_the_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    tracked = subprocess.run(LIST_FILES, cwd=ROOT, capture_output=True, text=True, check=False)
    if tracked.returncode != 0:
        pytest.skip("not a git checkout")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == {name for name in tracked.stdout.splitlines() if (ROOT / name).exists()}
    assert any(name.endswith(".safetensors") for name in names)


def test_the_installed_wheel_renders_from_another_folder(wheel: Path, tmp_path: Path) -> None:
    home, work = tmp_path / "env", tmp_path / "work"
    venv.create(home, with_pip=True, symlinks=True)
    python = home / "bin" / "python"
    offline = ["--no-deps", "--no-index", "--disable-pip-version-check", "--quiet"]
    subprocess.run([python, "-m", "pip", "install", *offline, wheel], check=True)
    # The dependencies of this environment, without the link to the checkout: a path added by a .pth reads no .pth.
    site = Path(sysconfig.get_path("purelib", vars={"base": str(home)}))
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    work.mkdir()
    (work / "shots.jsonl").write_text(
        '{"id": "ball", "prompt": "a red circle moving right on a blue background", "num_inference_steps": 2}\n'
        '{"id": "still", "prompt": "a green square", "num_frames": 1, "num_inference_steps": 2}\n',
        encoding="utf-8",
    )
    environ = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    where = [python, "-c", "import omni_cli; print(omni_cli.__file__)"]
    imported = subprocess.run(where, cwd=work, env=environ, capture_output=True, text=True, check=True).stdout
    assert Path(imported.strip()).is_relative_to(site)

    command = [home / "bin" / "omni-gen", "run", "shots.jsonl", "-o", "out", "--progress", "plain"]
    run = subprocess.run(command, cwd=work, env=environ, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr
    rows = [json.loads(line) for line in (work / "out" / "manifest.jsonl").read_text("utf-8").splitlines()]
    assert {(row["id"], row["status"]) for row in rows} == {("ball", "done"), ("still", "done")}
    assert {path.name for path in (work / "out").glob("[!m]*")} == {"ball.mp4", "still.png"}
