"""`omni-gen validate PROMPTS`: report every problem of a prompt file, without torch."""

import sys
from typing import Annotated

import typer

from omni_cli.cli.options import model_options as m
from omni_cli.cli.options import output_options as o
from omni_cli.cli.options import request_options as d


def validate(
    prompts: d.Prompts,
    model: m.Model = "demo",
    cards: m.Cards = None,
    input_format: d.InputFormat = None,
    input_encoding: d.InputEncoding = None,
    field: d.Field = None,
    extra_columns: d.ExtraColumns = d.ExtraColumnsChoice.ERROR,
    prompt_syntax: d.PromptSyntaxOption = d.PromptSyntaxChoice.AUTO,
    lora_dir: d.LoraDir = None,
    matrix: d.Matrix = None,
    repeat: d.Repeat = 1,
    expand: d.Expand = None,
    wildcards: d.WildcardFolder = None,
    limit: d.Limit = None,
    layout: o.Layout = None,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print problems only.")] = False,
) -> None:
    """Check every request of a prompt file: fields, ranges, sizes, ids, names, inputs. Exit code 2 if one is wrong."""
    parameters = dict(locals())
    # Imported here: --help stays fast.
    import msgspec

    from omni_cli.cli.run_config import prompts_config, read_options
    from omni_cli.cli.stderr_warnings import warnings_on_stderr
    from omni_cli.config import ModelConfig, OutputConfig, RunConfig
    from omni_cli.export.layouts import layout_defaults
    from omni_cli.planner.check_file import check_file
    from omni_cli.prompts.expansion import Expander
    from omni_cli.prompts.prompt_source import PromptSource
    from omni_cli.request import GenerationRequest

    output = msgspec.convert({"layout": layout}, OutputConfig)
    config = RunConfig(
        model=ModelConfig(model=model, cards=cards),
        output=output,
        prompts=prompts_config(parameters),
        defaults=layout_defaults(output.layout, GenerationRequest()),
        limit=limit,
    )
    options = read_options(input_format, input_encoding, field, extra_columns.value, output.layout)
    source = PromptSource(prompts, GenerationRequest(), options=options, expander=Expander(config))
    with warnings_on_stderr(), source:
        count = check_file(config, source)
    if not quiet:
        print(f"{count} requests, no problems", file=sys.stderr)  # noqa: T201
