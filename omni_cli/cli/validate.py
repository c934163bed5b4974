"""`omni-gen validate PROMPTS`: every problem of a file at once, without torch."""

import sys
from typing import Annotated

import typer

from omni_cli.cli.options import defaults as d
from omni_cli.cli.options import model as m


def validate(
    prompts: d.Prompts,
    model: m.Model = "demo",
    cards: m.Cards = None,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print problems only.")] = False,
) -> None:
    """Check every request of a prompt file: fields, ranges, sizes, ids, names, inputs. Exit code 2 if one is wrong."""
    # Imported when a file is to be checked: --help stays fast.
    from omni_cli.config import ModelConfig, RunConfig
    from omni_cli.planner.check_file import check_file
    from omni_cli.planner.source import Source
    from omni_cli.request import GenerationRequest

    config = RunConfig(model=ModelConfig(model=model, cards=cards))
    with Source(prompts, GenerationRequest()) as source:
        count = check_file(config, source)
    if not quiet:
        print(f"{count} requests, no problems", file=sys.stderr)  # noqa: T201
