"""Settings from YAML files."""

from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import typer
import yaml

from omni_cli.cli.app import app
from omni_cli.cli.run import run
from omni_cli.cli.yaml_settings import read_deploy_transport, read_flag_values
from omni_cli.errors import UsageError
from tests.cli.conftest import omni_gen

COMMAND: Any = typer.main.get_command(app)
RUN = COMMAND.commands["run"]
HINTS = get_type_hints(run)
NO_KEYS = ("config", "help_all")
FLAGS = [flag for flag in RUN.params if any(name.startswith("--") for name in flag.opts) and flag.name not in NO_KEYS]

MATRIX = ["seed=1..4", 'negative_prompt=["","a, b"]', "steps=[2,4]"]
FIELDS = {"field": ["prompt=caption"], "component": ["vae=v.safetensors"]}


def read(path: Path, text: str) -> dict[str, Any]:
    path.write_text(text, encoding="utf-8")
    return dict(read_flag_values(path, typer.Context(RUN)).values)


def sample(flag: Any) -> Any:
    """A value of the flag, as YAML would have it."""
    if flag.is_flag:
        return not flag.default
    kinds = [
        kind
        for part in (HINTS[flag.name], *get_args(HINTS[flag.name]))
        for kind in (part, *get_args(part))
        if isinstance(kind, type)
    ]
    choices = [list(kind)[-1].value for kind in kinds if issubclass(kind, Enum)]
    return next(iter(choices), 3 if int in kinds else 0.5 if float in kinds else "x")


@pytest.mark.parametrize("flag", FLAGS, ids=lambda flag: flag.name)
def test_every_flag_is_a_key(tmp_path: Path, flag: Any) -> None:
    key, value = flag.opts[-1].removeprefix("--"), sample(flag)
    for spelling in (key, key.replace("-", "_")):
        (given,) = read(tmp_path / "c.yaml", yaml.safe_dump({spelling: value})).values()
        assert given == (value if flag.is_flag else [str(value)] if flag.multiple else str(value))
    for negative in flag.secondary_opts:
        text = yaml.safe_dump({negative.removeprefix("--"): True})
        assert read(tmp_path / "c.yaml", text) == {flag.name: False}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", {}),
        ("# nothing\n", {}),
        ("\ufeffseed: 7\n", {"seed": "7"}),
        ("resume: true\n", {"overwrite": False}),
        ("overwrite: no\nno-async: on\n", {"overwrite": False, "async_output": False}),
        ("lora: models/x.safetensors\n", {"lora": ["models/x.safetensors"]}),
        ("lora: [a, 'b:0.5']\n", {"lora": ["a", "b:0.5"]}),
        ('matrix: {seed: 1..4, negative_prompt: ["", "a, b"], steps: [2, 4]}\n', {"matrix": MATRIX}),
        ("field: {prompt: caption}\ncomponent: {vae: v.safetensors}\n", FIELDS),
        ('num_inference_steps: "2"\nfps: "8"\n', {"num_inference_steps": "2", "fps": "8"}),
        ("seed: ~\nheight:\nmodel: null\n", {}),
        ("scheduler_config: {use_karras_sigmas: true, a: [1, 2.5]}\n", None),
        ("model: 1e3\nnegative-prompt: no\n", {"model": "1e3", "negative_prompt": "no"}),
        ("revision: 2026-01-02\nvariant: 0o17\n", {"revision": "2026-01-02", "variant": "0o17"}),
    ],
)
def test_scalars_are_read_as_on_the_command_line(tmp_path: Path, text: str, values: dict[str, Any] | None) -> None:
    expected = {"scheduler_config": '{"use_karras_sigmas":true,"a":[1,2.5]}'} if values is None else values
    assert read(tmp_path / "c.yaml", text) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("seed: 7\nseed: 8\n", "c.yaml:2: seed is given already at {file}:1; keep one"),
        ("async: true\nno_async: true\n", "c.yaml:2: no_async is given already at {file}:1; keep one"),
        ("seed: 1e3\n", 'c.yaml:1: seed: "1e3": '),
        ("\nprogress: no\n", 'c.yaml:2: progress: "no": '),
        ("overwrite: 2\n", 'c.yaml:1: overwrite: expected true or false, got "2"'),
        ("overwrite: []\n", "c.yaml:1: overwrite: expected true or false, got a list"),
        ("model: [a]\n", "c.yaml:1: model: expected a text or a number, got a list"),
        ("lora: [{path: a}]\n", "c.yaml:1: lora: expected a text or a number, got a mapping"),
        ("seeed: 1\n", 'c.yaml:1: unknown key "seeed"; did you mean "seed"?'),
        ("config: a\n", 'c.yaml:1: unknown key "config"'),
        ("[1]: 2\n", "c.yaml:1: unknown key"),
        ("- seed\n", "c.yaml:1: expected a mapping, got a list"),
        ("seed\n", 'c.yaml:1: expected a mapping, got "seed"'),
        ("\tseed: 1\n", "c.yaml: "),
        ("a: 1\n---\nb: 2\n", "c.yaml: "),
        ("seed: *x\n", "c.yaml: "),
        ("seed: !!python/object:os.x {}\n", "c.yaml:1: seed: expected a text or a number, got a mapping"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_key(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "c.yaml"
    with pytest.raises(UsageError) as caught:
        read(file, text)
    assert str(caught.value).startswith(f"--config {tmp_path}/{problem.format(file=file)}")


def test_every_mistake_is_told_at_once_and_later_checks_name_the_file(tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("height: x\nbogus: 1\n")
    result = omni_gen("run", "-", "--config", config, input='{"prompt": "x"}\n')
    assert result.returncode == 2
    assert [line.split(": ")[-2:][0] for line in result.stderr.splitlines()] != []
    assert len(result.stderr.splitlines()) == 2
    config.write_text("\nfps: 0\nmax_inflight_bytes: lots\n")
    result = omni_gen("run", "-", "--config", config, input='{"prompt": "x"}\n')
    assert f"--config {config}:3: --max-inflight-bytes lots: must be" in result.stderr
    result = omni_gen("run", "-", "--config", config, "--max-inflight-bytes", "few", input='{"prompt": "x"}\n')
    assert "omni-gen: --max-inflight-bytes few: must be" in result.stderr
    result = omni_gen("run", "-", "--config", config, "--max-inflight-bytes", "1M", input='{"prompt": "x"}\n')
    assert f"--config {config}:2: --fps: expected a number above 0" in result.stderr


@pytest.mark.parametrize(
    "content", ["[]", "stages: 3", "stages:\n  - video_output_transport: {bogus: 1}", "a: [", "stages: [1]"]
)
def test_a_wrong_deploy_file_is_named(tmp_path: Path, content: str) -> None:
    deploy = tmp_path / "deploy.yaml"
    deploy.write_text(content)
    with pytest.raises(UsageError, match=r"deploy\.yaml"):
        read_deploy_transport(deploy)
