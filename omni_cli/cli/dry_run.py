"""`omni-gen run --dry-run`: the plan for people on stderr, its paths or lines on stdout."""

import posixpath
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Literal

from omni_cli.api.plan_report import AnyPlanLine, PlanGroup, PlanModel, PlanRequest, PlanTotals, plan_file
from omni_cli.api.session import Session
from omni_cli.cli.signals import stopping
from omni_cli.config import RunConfig
from omni_cli.errors import Interrupted, UsageError
from omni_cli.log import warnings_to
from omni_cli.prompts.prompt_source import PromptSource
from omni_cli.text import byte_count, printable, quote
from omni_cli.trace import Timeline
from omni_cli.view.json_view import json_line

SHOWN_FILES = 5
SHOWN_GROUPS = 40
SHOWN_CHANGES = 20
"""What people are shown; --print gives everything."""

_REASONS = {
    "new": "new",
    "failed": "failed before",
    "more_outputs": "done with fewer outputs than now",
    "stopped_early": "stopped before their last step",
    "changed": "done, and changed since",
    "conflict": "in conflict: their files are finished outputs of other requests",
    "file_missing": "done, but a file is missing or not what was written",
    "overwrite": "to be overwritten",
    "done": "done",
}


def show_plan(source: PromptSource, config: RunConfig, data: Literal["paths", "json"] | None) -> int:
    """Show the plan of a run of `source`, not open yet, and return its exit code.

    Raises OmniGenError as the run would before its first forward.
    """
    printer = _PlanPrinter(data, config.output.output_dir)
    with ExitStack() as stack:
        stack.enter_context(source)
        stack.enter_context(warnings_to(lambda text: _print_line(f"warning: {text}")))
        session = Session(config, lambda event: None, Timeline(), base=source.base, dry_run=True)
        stack.enter_context(stopping(session.stop.request, session.kill))
        stack.enter_context(session)
        try:
            plan_file(session, source, printer.add)
        except Interrupted:
            return session.stop.exit_code
        except UsageError:
            printer.finish()
            raise
    printer.finish()
    return 0


class _PlanPrinter:
    """Prints the data of a plan line by line, and at the end the summary for people."""

    def __init__(self, data: Literal["paths", "json"] | None, output_dir: str) -> None:
        self._data = data
        self._output_dir = output_dir
        self._files: list[str] = []
        self._changes: list[str] = []
        self._models: list[PlanModel] = []
        self._groups: list[PlanGroup] = []
        self._totals: PlanTotals | None = None

    def add(self, line: AnyPlanLine) -> None:
        """Print a line as data, and keep what the summary needs of it."""
        if self._data == "json":
            sys.stdout.buffer.write(json_line(line) + b"\n")
        if isinstance(line, PlanRequest):
            self._changes += [f"  {quote(line.id)}: {line.reason}: {detail}" for detail in line.details]
            del self._changes[SHOWN_CHANGES:]
        match line:
            case PlanRequest(skip=False):
                self._add_files(line)
            case PlanModel():
                self._models.append(line)
            case PlanGroup() if len(self._groups) < SHOWN_GROUPS:
                self._groups.append(line)
            case PlanTotals():
                self._totals = line
            case _:
                pass

    def finish(self) -> None:
        """Flush the data; print the summary unless the data is JSON."""
        sys.stdout.buffer.flush()
        if self._data != "json" and self._totals is not None:
            for text in self._summary(self._totals):
                _print_line(text)

    def _add_files(self, line: PlanRequest) -> None:
        for file in line.files:
            path = posixpath.join(self._output_dir, file)
            if self._data == "paths":
                sys.stdout.buffer.write(path.encode("utf-8", "surrogateescape") + b"\n")
            if len(self._files) < SHOWN_FILES:
                self._files.append(path)

    def _summary(self, totals: PlanTotals) -> Iterator[str]:
        done = totals.reasons.get("done", 0)
        yield f"plan: {totals.render} of {_count(totals.requests, 'request')} to render, {done} already done"
        for reason, count in totals.reasons.items():
            yield f"  {count} {_REASONS.get(reason, reason)}"
        yield from self._changes
        for model in self._models:
            weights = "weights: unknown size"
            if model.weight_bytes is not None:
                weights = f"weights {byte_count(model.weight_bytes)}"
            yield f"model {model.id}: {model.pipeline}, {model.dtype}, {weights}, revision {model.revision}"
        yield from map(_group_text, self._groups)
        if len(self._groups) == SHOWN_GROUPS:
            yield "  more groups are not shown; --print json has them all"
        calls = "an automatic number of calls" if totals.calls is None else _count(totals.calls, "call")
        yield f"in all: {_count(totals.outputs, 'output')} in {calls}, {_count(totals.loads, 'model load')}"
        free = "" if totals.disk_free is None else f", {byte_count(totals.disk_free)} are free"
        yield (
            f"disk: typically {byte_count(totals.disk_bytes)}, at least {byte_count(totals.disk_least)}"
            f" for {_count(totals.files, 'file')} and their rows{free}"
        )
        for file in self._files:
            yield f"  {file}"
        if totals.files > len(self._files) > 0:
            yield f"  and {totals.files - len(self._files)} more (--print paths)"
        yield "nothing was rendered"


def _group_text(group: PlanGroup) -> str:
    shape = "the pipeline's default size"
    if group.width is not None and group.height is not None:
        shape = f"{group.width}x{group.height}" + (f"x{group.num_frames}" if group.num_frames is not None else "")
    lora = "".join(f", lora {adapter.path} ({adapter.weight:g})" for adapter in group.lora)
    steps = "" if group.num_inference_steps is None else f", {group.num_inference_steps} steps"
    calls = "" if group.calls is None else f" in {_count(group.calls, 'call')}"
    memory = "unknown"
    if group.memory_bytes is not None:
        memory = f"at least {byte_count(group.memory_bytes)} and activations"
    counts = f"{_count(group.requests, 'request')}, {_count(group.outputs, 'output')}{calls}"
    disk = byte_count(group.disk_bytes)
    return f"  {group.model}, {shape}{steps}{lora}: {counts}; device memory {memory}; disk {disk}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _print_line(text: str) -> None:
    print(f"omni-gen: {printable(text)}", file=sys.stderr)  # noqa: T201
