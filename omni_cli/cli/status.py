"""`omni-gen status OUTPUTS [PROMPTS]`: what is done, failed, missing and orphaned, without torch and without a lock."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from omni_cli.cli.options import request_options as d


def status(
    outputs: Annotated[Path, typer.Argument(help="A folder with a manifest, or the manifest.", show_default=False)],
    prompts: Annotated[
        str | None, typer.Argument(help="A prompt file, or -: which of its requests are missing.", show_default=False)
    ] = None,
    prompt_syntax: d.PromptSyntaxOption = d.PromptSyntaxChoice.AUTO,
    lora_dir: d.LoraDir = None,
    matrix: d.Matrix = None,
    repeat: d.Repeat = 1,
    expand: d.Expand = None,
    wildcards: d.WildcardFolder = None,
    verify_hashes: Annotated[
        bool, typer.Option("--verify-hashes", help="Read every file, instead of comparing sizes.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="JSON lines: one per request or file that is not in order, then the totals.")
    ] = False,
) -> None:
    """Say what is done, failed, cancelled, damaged and missing, and which files no row knows; also during a run.

    Exit code 0 if all is done, 1 if something failed, was cancelled, is damaged or is missing.
    """
    parameters = dict(locals())
    # Imported here: --help stays fast.
    from contextlib import ExitStack

    from omni_cli.api.folder_status import folder_status
    from omni_cli.cli.run_config import prompts_config
    from omni_cli.cli.status_text import StatusText
    from omni_cli.cli.stderr_warnings import warnings_on_stderr
    from omni_cli.config import RunConfig
    from omni_cli.prompts.expansion import Expander
    from omni_cli.prompts.prompt_source import PromptSource
    from omni_cli.request import GenerationRequest
    from omni_cli.text import printable
    from omni_cli.view.json_view import json_line

    text = StatusText()
    with ExitStack() as stack:
        stack.enter_context(warnings_on_stderr())
        expander = Expander(RunConfig(prompts=prompts_config(parameters)))
        # A request may get its input from a flag of the run, so one without an input is no mistake here.
        defaults = GenerationRequest(prompt="from a flag")
        source = None if prompts is None else PromptSource(prompts, defaults, expander=expander)
        if source is not None:
            stack.enter_context(source)
        totals = folder_status(
            outputs,
            source,
            (lambda line: typer.echo(json_line(line))) if as_json else text.add,
            verify_hashes=verify_hashes,
        )
    if not as_json:
        for line in text.lines(totals):
            typer.echo(printable(line))
    sys.stdout.flush()
    raise typer.Exit(0 if totals.complete else 1)
