"""The Containerfile and the lines that run it; and a run as they make it: no root, no home, a read-only file system."""

import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer
from packaging.requirements import SpecifierSet

from omni_cli.cli.app import app

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

Instruction = tuple[str, str]


def instructions() -> list[Instruction]:
    """Return the instructions of the Containerfile: keyword and the rest of its line, continuations joined."""
    lines = [line for line in (ROOT / "Containerfile").read_text("utf-8").splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in joined.splitlines() if line]


def values(keyword: str) -> list[str]:
    return [rest for name, rest in instructions() if name == keyword]


def copied() -> list[str]:
    """Return the sources that the image takes from the checkout."""
    lines = [shlex.split(rest) for rest in values("COPY") if not rest.startswith("--from")]
    return [source for line in lines for source in line[:-1]]


def documented(verb: str) -> list[list[str]]:
    """Return the `docker VERB` lines of docs/running.md, split into words."""
    text = re.sub(r"\\\n\s*", "", (ROOT / "docs/running.md").read_text(encoding="utf-8"))
    return [shlex.split(line) for line in re.findall(rf"(?m)^docker {verb} .*$", text)]


def test_every_instruction_is_one_that_engines_know() -> None:
    assert {name for name, _ in instructions()} <= {
        "ARG",
        "FROM",
        "ENV",
        "WORKDIR",
        "RUN",
        "COPY",
        "USER",
        "ENTRYPOINT",
        "CMD",
    }


def test_what_is_copied_exists_and_is_all_that_the_wheel_is_built_from() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert ignored[0] == "*"
    for source in copied():
        assert (ROOT / source).exists(), source
        assert f"!{source}" in ignored
    assert {"pyproject.toml", "omni_cli", PROJECT["readme"], *PROJECT["license-files"]} == set(copied())
    assert any(fnmatch.fnmatch("omni_cli/x/__pycache__", pattern) for pattern in ignored[1:])


def test_the_image_starts_the_command_without_root() -> None:
    assert json.loads(values("ENTRYPOINT")[-1])[0] in PROJECT["scripts"]
    names = [name for name, _ in instructions()]
    image = instructions()[len(names) - names[::-1].index("FROM") :]
    at = [name for name, _ in image].index("USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", image[at][1]), "a number, so that runAsNonRoot can be checked"
    assert not {"USER", "RUN", "COPY"} & {name for name, _ in image[at + 1 :]}


def test_versions_of_the_image_are_pinned_and_supported() -> None:
    defaults = dict(rest.split("=", 1) for rest in values("ARG"))
    assert SpecifierSet(PROJECT["requires-python"]).contains(defaults["PYTHON_VERSION"] + ".0")
    torch = next(each for each in PROJECT["dependencies"] if each.startswith("torch"))
    assert SpecifierSet(torch.removeprefix("torch")).contains(defaults["TORCH_VERSION"])
    assert not [image for image in values("FROM") if ":" not in image or ":latest" in image]


def test_documented_builds_use_arguments_of_the_containerfile() -> None:
    arguments = {rest.partition("=")[0] for rest in values("ARG")}
    builds = documented("build")
    assert len(builds) == 2
    for words in builds:
        assert words[words.index("-f") + 1] == "Containerfile"
        given = [words[at + 1].partition("=")[0] for at, word in enumerate(words) if word == "--build-arg"]
        assert set(given) <= arguments


def test_documented_runs_are_read_only_and_their_flags_exist() -> None:
    built = {words[words.index("-t") + 1] for words in documented("build")}
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    runs = documented("run")
    assert len(runs) == 2
    for words in runs:
        at = next(index for index, word in enumerate(words) if word in built)
        assert {"--read-only", "--cap-drop", "--user"} <= set(words[:at])
        assert "/work" in [words[index + 1].partition(":")[2] for index in range(at) if words[index] == "-v"]
        known = {flag for parameter in commands[words[at + 1]].params for flag in parameter.opts}
        assert {word for word in words[at + 2 :] if word.startswith("-")} <= known
        if words[at + 2].startswith("prompts/"):
            assert (ROOT / words[at + 2]).exists()


INSIDE = """
out=$1; shift
mount --bind "$out" "$out" || exit 97
for place in /dev/shm /run /var/tmp /tmp; do
    if mountpoint -q $place; then mount -o remount,ro,bind $place || exit 97; fi
done
mount -o remount,ro,bind / || exit 97
cd "$out" && touch /tmp/probe 2> /dev/null && exit 97
exec setpriv --reuid 12345 --regid 12345 --clear-groups --no-new-privs \
    --inh-caps=-all,+dac_read_search --ambient-caps=-all,+dac_read_search "$@"
"""
"""Make all but the folder `out` read-only and become a user without a name, who can read any interpreter's folder."""


@pytest.mark.parametrize("home", [[], ["HOME=/nonexistent"]], ids=["no home", "home that is missing"])
def test_run_without_root_home_and_writable_files_renders(home: list[str], tmp_path: Path) -> None:
    if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "setpriv", "mountpoint"))):
        pytest.skip("a container of its own takes root, unshare and setpriv")
    out = tmp_path / "work"
    out.mkdir()
    out.chmod(0o777)
    (out / "shots.jsonl").write_text('{"id": "a", "prompt": "a red circle", "num_inference_steps": 2}\n', "utf-8")
    environ = ["env", "-i", f"PATH={os.environ['PATH']}", f"PYTHONPATH={ROOT}", *home]
    run = [sys.executable, "-m", "omni_cli", "run", "shots.jsonl", "-o", "outputs", "--progress", "plain"]
    # The run is process 1, as in a container.
    space = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child"]
    ended = subprocess.run(
        [*space, "bash", "-c", INSIDE, "_", str(out), *environ, *run],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if ended.returncode == 97:
        pytest.skip("the root cannot be made read-only here")
    assert ended.returncode == 0, ended.stderr
    assert sorted(path.name for path in (out / "outputs").glob("[!.]*")) == ["a.mp4", "manifest.jsonl"]
    assert (out / "outputs" / "a.mp4").stat().st_uid == 12345
