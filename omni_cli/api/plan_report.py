"""The plan of a run without running it: the same validation, plans, order and calls as `run_file`; no file, no weights.

source ── validate ──> models identified ── plan ── finished work ──┬─> skipped
                                                                    └─> grouped ── batches ──> groups ──> totals
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from omni_cli.api.run_file import validate
from omni_cli.api.session import Session
from omni_cli.api.tally import Tally
from omni_cli.batch import BatchSize
from omni_cli.config import AUTO_BATCH_SIZE, OutputConfig
from omni_cli.journal import ManifestReader, check_folder, read_manifest
from omni_cli.models.weights import ITEM_BYTES, weight_bytes
from omni_cli.planner import batches, grouped
from omni_cli.planner.finished_work import Decision
from omni_cli.planner.refusals import Refusals
from omni_cli.prompts.prompt_source import PromptSource
from omni_cli.request import Adapter, ModelInfo, PlannedRequest
from omni_cli.shape import Setup
from omni_cli.writers.file_sizes import SpaceEstimate, estimate_files, estimate_row, free_space

PLAN_VERSION = 1


class PlanLine(msgspec.Struct, frozen=True, kw_only=True, tag_field="plan"):
    """Base: a line of `--dry-run --print json`."""


class PlanRequest(PlanLine, frozen=True, kw_only=True, tag="request"):
    """A request, rendered or skipped.

    `reason` of one to render: new, failed, more_outputs (than are done), file_missing (or its content differs from the
    manifest), stopped_early, overwrite, changed (with --replace-changed). `reason` of a skipped one: done, changed
    (another fingerprint or seed than the finished row's), conflict (its file is another finished request's); `refused`
    if the run would end with it. `details` say what has changed, or whose the file is. `files`, relative to the output
    folder, and `seeds` are those of the outputs to render, or of all if it is skipped.
    """

    id: str
    index: int
    skip: bool
    reason: str
    model: str
    files: tuple[str, ...]
    seeds: tuple[int, ...]
    fingerprint: str
    refused: bool = False
    details: tuple[str, ...] = ()


class PlanModel(PlanLine, frozen=True, kw_only=True, tag="model"):
    """A model to load. `weight_bytes` comes from the headers of its files; null where they are not on this machine."""

    id: str
    revision: str | None
    pipeline: str
    dtype: str
    weight_bytes: int | None


class PlanGroup(PlanLine, frozen=True, kw_only=True, tag="group"):
    """Requests of one model, adapters, shape and number of steps.

    `calls` is null with `--batch-size auto`. `memory_bytes` is a lower bound of device memory: weights plus the decoded
    outputs of the largest call, in the model's dtype and as uint8; activations come on top and are not known before the
    run. It is null where the weights are.
    """

    model: str
    lora: tuple[Adapter, ...]
    height: int | None
    width: int | None
    num_frames: int | None
    num_inference_steps: int | None
    requests: int
    outputs: int
    calls: int | None
    disk_bytes: int
    memory_bytes: int | None


class PlanTotals(PlanLine, frozen=True, kw_only=True, tag="totals"):
    """The whole plan.

    `reasons` counts requests by reason, `loads` how often each worker loads a model. `disk_least` and `disk_bytes` are
    the minimum and the typical size of files and rows, `disk_free` the free bytes (null where the disk does not say).
    """

    version: int = PLAN_VERSION
    requests: int
    render: int
    skip: int
    reasons: dict[str, int]
    outputs: int
    files: int
    calls: int | None
    loads: int
    disk_least: int
    disk_bytes: int
    disk_free: int | None
    output_dir: str


AnyPlanLine = PlanRequest | PlanModel | PlanGroup | PlanTotals
OnLine = Callable[[AnyPlanLine], None]


def plan_file(session: Session, source: PromptSource, on_line: OnLine) -> PlanTotals:
    """Report the plan of `source`: requests in the order of rendering, then models and groups, the totals last.

    Raises what `run_file` raises before its first forward; UsageError for finished files that would be replaced unasked
    comes after the whole plan. Creates, locks and changes nothing.
    """
    output_dir = session.config.output.output_dir
    check_folder(output_dir)
    tally = Tally()
    validate(session, source, tally, dry_run=True)
    with read_manifest(output_dir) as manifest:
        report = _PlanReport(session, manifest, on_line)
        planned = session.planner().plan_all(source.rows())
        sizes = BatchSize(session.config.engine.batch_size, session.config.engine.least_workers, 1)
        for call in batches(grouped(report.missing(planned), session.config.lookahead), sizes.size, sizes.buffer_size):
            report.add_call(call)
    totals = report.finish(tally.total)
    if report.refusals:
        raise report.refusals.error(output_dir)
    return totals


def _space_of(planned: PlannedRequest, output: OutputConfig) -> SpaceEstimate:
    """Return the space of the outputs of `planned` that are to be rendered, and of its row."""
    request = msgspec.structs.replace(planned.request, num_outputs=len(planned.seeds))
    return estimate_files(request, output) + estimate_row(request)


@dataclass(slots=True)
class _GroupSums:
    """The sums of one group; `largest_call` is its most outputs per call."""

    requests: int = 0
    outputs: int = 0
    calls: int = 0
    largest_call: int = 0
    space: SpaceEstimate = field(default_factory=SpaceEstimate)


@dataclass(slots=True)
class _PlanReport:
    """Reports requests as they are planned, and sums them up by group."""

    session: Session
    manifest: ManifestReader
    on_line: OnLine
    reasons: dict[str, int] = field(default_factory=dict)
    groups: dict[tuple[Setup, int | None], _GroupSums] = field(default_factory=dict)
    loads: int = 0
    refusals: Refusals = field(default_factory=Refusals)
    _pending_decisions: dict[int, Decision] = field(default_factory=dict)
    _last_model: tuple[str | None] | None = None

    def missing(self, planned: Iterable[PlannedRequest]) -> Iterator[PlannedRequest]:
        """Yield the requests that a run would render, and report the others as skipped."""
        work = self.session.finished_work(self.manifest)
        for request in planned:
            decision = work.decide(request)
            reason = str(decision.status)
            self.reasons[reason] = self.reasons.get(reason, 0) + 1
            if decision.refused:
                self.refusals.add(request.id, decision)
            if decision.remaining is None:
                self._report_request(request, decision)
            else:
                self._pending_decisions[request.index] = decision
                yield decision.remaining

    def add_call(self, call: tuple[PlannedRequest, ...]) -> None:
        """Report the requests of a pipeline call, and add them to their groups."""
        model = (call[0].request.model,)
        self.loads += model != self._last_model
        self._last_model = model
        for request in call:
            key = (request.shape.setup, request.request.num_inference_steps)
            sums = self.groups.setdefault(key, _GroupSums())
            sums.requests += 1
            sums.outputs += len(request.seeds)
            sums.space += _space_of(request, self.session.config.output)
            self._report_request(request, self._pending_decisions.pop(request.index))
        sums.calls += 1
        sums.largest_call = max(sums.largest_call, sum(len(request.seeds) for request in call))

    def finish(self, total: int) -> PlanTotals:
        """Report models, groups and, last, the totals of a plan of `total` requests; return the totals."""
        weights = {key: self._report_model(key) for key in dict.fromkeys(setup.model for setup, _ in self.groups)}
        auto = self.session.config.engine.batch_size == AUTO_BATCH_SIZE
        space = SpaceEstimate()
        for (setup, steps), sums in self.groups.items():
            space += sums.space
            self.on_line(self._group_line(setup, steps, sums, weights[setup.model], auto))
        render = sum(sums.requests for sums in self.groups.values())
        output_dir = self.session.config.output.output_dir
        try:
            free = free_space(Path(output_dir)).bytes
        except OSError:
            free = None
        totals = PlanTotals(
            requests=total,
            render=render,
            skip=total - render,
            reasons=self.reasons,
            outputs=sum(sums.outputs for sums in self.groups.values()),
            files=space.files,
            calls=None if auto else sum(sums.calls for sums in self.groups.values()),
            loads=self.loads,
            disk_least=space.least,
            disk_bytes=space.typical,
            disk_free=free,
            output_dir=output_dir,
        )
        self.on_line(totals)
        return totals

    def _report_request(self, request: PlannedRequest, decision: Decision) -> None:
        self.on_line(
            PlanRequest(
                id=request.id,
                index=request.index,
                skip=decision.remaining is None,
                reason=str(decision.status),
                model=self.session.models.info_of(request.request).id,
                files=request.files,
                seeds=request.seeds,
                fingerprint=request.fingerprint,
                refused=decision.refused,
                details=decision.details,
            )
        )

    def _report_model(self, key: str | None) -> int | None:
        """Report a model and return the bytes of its weights."""
        config, info = self.session.models.config(key), self._info(key)
        size = weight_bytes(config, config.variant, info.dtype)
        self.on_line(
            PlanModel(id=info.id, revision=info.revision, pipeline=info.pipeline, dtype=info.dtype, weight_bytes=size)
        )
        return size

    def _group_line(
        self, setup: Setup, steps: int | None, sums: _GroupSums, weights: int | None, auto: bool
    ) -> PlanGroup:
        info = self._info(setup.model)
        height, width, num_frames = setup.size
        pixels = (height or 0) * (width or 0) * (num_frames or 1)
        decoded = sums.largest_call * pixels * 3 * (ITEM_BYTES.get(info.dtype, 4) + 1)
        return PlanGroup(
            model=info.id,
            lora=tuple(Adapter(path=path, weight=weight) for path, weight in setup.adapters),
            height=height,
            width=width,
            num_frames=num_frames,
            num_inference_steps=steps,
            requests=sums.requests,
            outputs=sums.outputs,
            calls=None if auto else sums.calls,
            disk_bytes=sums.space.typical,
            memory_bytes=None if weights is None else weights + decoded,
        )

    def _info(self, key: str | None) -> ModelInfo:
        info = self.session.models.facts(key).info
        assert info is not None, "an engine was asked"
        return info
