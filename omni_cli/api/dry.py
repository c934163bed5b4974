"""What a run would do, without doing it: the same check, plans, order and calls as `run_file`, and no file, no weights.

source ── judge ──> models identified ── plan ── standing in the journal ──┬─> skipped
                                                                          └─> grouped ── batches ──> groups ──> totals
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from omni_cli.api.run import Tally, judge
from omni_cli.api.session import Session
from omni_cli.batch import Sizes
from omni_cli.config import AUTO_BATCH_SIZE
from omni_cli.journal import Ledger, Standing, check_folder, read_ledger
from omni_cli.models.weights import ITEM_BYTES, weight_bytes
from omni_cli.planner import Models, batches, grouped
from omni_cli.planner.order import Group, group_of
from omni_cli.planner.source import Source
from omni_cli.request import Adapter, ModelInfo, PlannedRequest
from omni_cli.writers.room import Room, free_in, room_for, row_room

PLAN_VERSION = 1


class PlanLine(msgspec.Struct, frozen=True, kw_only=True, tag_field="plan"):
    """Base: a line of `--dry-run --print json`."""


class PlanRequest(PlanLine, frozen=True, kw_only=True, tag="request"):
    """A request. `reason`: new, failed, changed (another fingerprint or file name), file_missing (or not what was written),
    overwrite; of one that is skipped: done. `files` are relative to the output folder.
    """

    id: str
    index: int
    skip: bool
    reason: str
    model: str
    files: tuple[str, ...]
    seeds: tuple[int, ...]
    fingerprint: str


class PlanModel(PlanLine, frozen=True, kw_only=True, tag="model"):
    """A model that is loaded. `weight_bytes` is told by its files' headers; null where they are not here."""

    id: str
    revision: str | None
    pipeline: str
    dtype: str
    weight_bytes: int | None


class PlanGroup(PlanLine, frozen=True, kw_only=True, tag="group"):
    """Requests of one model, adapters, shape and number of steps. `calls` is null where the batch size is found by measuring.

    `memory_bytes` is the least that the device must hold: weights, and the decoded outputs of the largest call in the model's
    dtype and as uint8. Activations come on top; how much they are is not known before running. Null with the weights.
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
    """The whole: `reasons` counts requests by theirs, `loads` is how often a model is loaded (by each worker).

    `disk_least` and `disk_bytes` are what the files and rows take at least and typically, `disk_free` what there is.
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
Tell = Callable[[AnyPlanLine], None]


def plan_file(session: Session, source: Source, tell: Tell) -> PlanTotals:
    """Tell the plan of `source`: every request in the order of rendering, then models and groups; the totals are last.

    Raises PromptFileError with every problem, as a run would. Makes, holds and changes nothing.
    """
    output_dir = session.config.output.output_dir
    check_folder(output_dir)
    tally = Tally()
    judge(session, source, tally, hold=False)
    models = session.models(source.base)
    with read_ledger(output_dir) as ledger:
        walk = _Walk(session, models, ledger, tell)
        planned = session.planner(source.base).plan_all(source.rows())
        sizes = Sizes(session.config.engine.batch_size, session.config.engine.workers, 1)
        for call in batches(grouped(walk.missing(planned), session.config.lookahead), sizes.size, sizes.look_ahead):
            walk.call(call)
    return walk.end(tally.total)


@dataclass(slots=True)
class _Sum:
    """What a group adds up to; `widest` is the most outputs of a call."""

    requests: int = 0
    outputs: int = 0
    calls: int = 0
    widest: int = 0
    room: Room = field(default_factory=Room)


@dataclass(slots=True)
class _Walk:
    """The sums of a plan."""

    session: Session
    models: Models
    ledger: Ledger
    tell: Tell
    reasons: dict[str, int] = field(default_factory=dict)
    held: dict[int, str] = field(default_factory=dict)
    groups: dict[tuple[Group, int | None], _Sum] = field(default_factory=dict)
    loads: int = 0
    last: tuple[str | None] | None = None

    def missing(self, planned: Iterable[PlannedRequest]) -> Iterator[PlannedRequest]:
        """What would be rendered; says so of the rest."""
        for request in planned:
            reason = "overwrite" if self.session.config.output.overwrite else str(self.ledger.standing(request))
            self.reasons[reason] = self.reasons.get(reason, 0) + 1
            if reason == Standing.DONE:
                self._say(request, reason)
            else:
                self.held[request.index] = reason
                yield request

    def call(self, call: tuple[PlannedRequest, ...]) -> None:
        """A pipeline call."""
        model = (call[0].request.model,)
        self.loads += model != self.last
        self.last = model
        outputs = sum(len(request.seeds) for request in call)
        for request in call:
            key = (group_of(request), request.request.num_inference_steps)
            group = self.groups.setdefault(key, _Sum())
            group.requests += 1
            group.outputs += len(request.seeds)
            group.room += room_for(request.request, self.session.config.output) + row_room(request.request)
            self._say(request, self.held.pop(request.index))
        group.calls += 1
        group.widest = max(group.widest, outputs)

    def end(self, total: int) -> PlanTotals:
        """Tell models, groups and totals."""
        weights = {key: self._model(key) for key in dict.fromkeys(group.model for group, _ in self.groups)}
        auto = self.session.config.engine.batch_size == AUTO_BATCH_SIZE
        room = Room()
        for (group, steps), found in self.groups.items():
            room += found.room
            self.tell(self._group(group, steps, found, weights[group.model], auto))
        render = sum(found.requests for found in self.groups.values())
        output_dir = self.session.config.output.output_dir
        totals = PlanTotals(
            requests=total,
            render=render,
            skip=total - render,
            reasons=self.reasons,
            outputs=sum(found.outputs for found in self.groups.values()),
            files=room.files,
            calls=None if auto else sum(found.calls for found in self.groups.values()),
            loads=self.loads,
            disk_least=room.least,
            disk_bytes=room.typical,
            disk_free=_free(output_dir),
            output_dir=output_dir,
        )
        self.tell(totals)
        return totals

    def _say(self, request: PlannedRequest, reason: str) -> None:
        self.tell(
            PlanRequest(
                id=request.id,
                index=request.index,
                skip=reason == Standing.DONE,
                reason=reason,
                model=self.models.info_of(request.request).id,
                files=request.files,
                seeds=request.seeds,
                fingerprint=request.fingerprint,
            )
        )

    def _model(self, key: str | None) -> int | None:
        """Tell of a model; the bytes of its weights."""
        config, info = self.models.config(key), self._info(key)
        size = weight_bytes(config, config.variant, info.dtype)
        self.tell(
            PlanModel(id=info.id, revision=info.revision, pipeline=info.pipeline, dtype=info.dtype, weight_bytes=size)
        )
        return size

    def _group(self, group: Group, steps: int | None, found: _Sum, weights: int | None, auto: bool) -> PlanGroup:
        info = self._info(group.model)
        pixels = (group.height or 0) * (group.width or 0) * (group.num_frames or 1)
        decoded = found.widest * pixels * 3 * (ITEM_BYTES.get(info.dtype, 4) + 1)
        return PlanGroup(
            model=info.id,
            lora=tuple(Adapter(path=path, weight=weight) for path, weight in group.adapters),
            height=group.height,
            width=group.width,
            num_frames=group.num_frames,
            num_inference_steps=steps,
            requests=found.requests,
            outputs=found.outputs,
            calls=None if auto else found.calls,
            disk_bytes=found.room.typical,
            memory_bytes=None if weights is None else weights + decoded,
        )

    def _info(self, key: str | None) -> ModelInfo:
        info = self.models.facts(key).info
        assert info is not None
        return info


def _free(output_dir: str) -> int | None:
    try:
        return free_in(Path(output_dir)).bytes
    except OSError:
        return None
