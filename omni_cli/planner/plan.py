"""Plan the requests of a run in streams over its rows: one stream finds every problem, another makes the plans.

rows ── check_all ──> PromptFileError with all problems, or the number of this run's requests
rows ── plan_all ───> PlannedRequest, PlannedRequest, ...  ── grouped, batches ──> pipeline calls
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from omni_cli.config import RunConfig
from omni_cli.errors import Diagnostic, DiagnosticError, ModelLoadError, PromptFileError, UsageError
from omni_cli.export.layouts import name_template
from omni_cli.models.cards import Card
from omni_cli.planner.batches import shape_of
from omni_cli.planner.checks.card_check import card_problems
from omni_cli.planner.checks.input_files import InputCheck
from omni_cli.planner.checks.layout_check import layout_problems
from omni_cli.planner.checks.name_check import NameCheck
from omni_cli.planner.checks.tensors import tensor_problems
from omni_cli.planner.checks.weights_check import weight_problems
from omni_cli.planner.file_names import NameTemplate, file_names
from omni_cli.planner.fingerprint import Fingerprinter
from omni_cli.planner.identity import with_ids
from omni_cli.planner.models import Models
from omni_cli.planner.problem_list import ProblemList
from omni_cli.planner.resolve import Resolved, SourcedRequest, field_problem, sample_seeds
from omni_cli.planner.row_kinds import RowKinds
from omni_cli.planner.version_1 import FingerprinterV1
from omni_cli.request import GenerationRequest, ModelInfo, PlannedRequest
from omni_cli.storage.shards import holds
from omni_cli.storage.user_path import expand_user
from omni_cli.writers.codecs import check_encoder_settings
from omni_cli.writers.file_sizes import SpaceEstimate, estimate_row
from omni_cli.writers.formats import check_size, find_backend, floats_for

Reject = Callable[[SourcedRequest | None, list[Diagnostic]], None]
"""Takes a row that cannot be rendered, None if it is no request at all, and what is wrong with it."""

Refuse = Callable[[PlannedRequest], str]
"""Returns why a planned request must not be rendered, or ""."""


class Planner:
    """Checks and plans the requests of one run."""

    def __init__(self, config: RunConfig, models: Models, base: Path = Path()) -> None:
        """Plan for `config`; relative input paths start at `base`, the prompt file's folder or the working folder.

        Planning needs what an engine reports of each of `models`. Checking does not: requests of a model without a card
        are checked by the file alone. Raises UsageError for a name template, setting, limit or shard that cannot be
        used.
        """
        self._config, self._models, self._base = config, models, base
        self._template = NameTemplate(name_template(config.output))
        self._kinds = RowKinds(config, models, base)
        self._inputs, self._names = InputCheck(), NameCheck(config)
        self._fingerprinters: dict[str | None, Fingerprinter] = {}
        self._fingerprinters_v1: dict[str | None, FingerprinterV1] = {}
        self._format_faults: dict[str, str] = {}
        _check_selection(config)
        check_encoder_settings(config.output)

    def check(self, row: SourcedRequest) -> list[Diagnostic]:
        """Return all problems of `row`, which has an id, that only planning can see.

        Registers its id and files: check each row once.
        """
        file = self._kinds.file_of_passed(row)
        if file is not None:
            return self._names.id_problems(row) or self._names.file_problems(row, [file])
        model_problems = self._models.problems(row)
        if model_problems:
            return model_problems
        card = self._card_of(row.request)
        if card is None:
            return []
        try:
            resolved = self._kinds.resolve(row, card)
        except DiagnosticError as error:
            return [_at_row(row, error)]
        except UsageError as error:
            return [row.problem("format", str(error))]
        problems = [
            *card_problems(row, resolved, card),
            *tensor_problems(row, resolved, card),
            *weight_problems(row, resolved, card),
            *self._encoder_problems(row, resolved),
            *layout_problems(row, resolved, self._config.output.layout),
            *self._inputs.problems(row, resolved.request),
        ]
        if not problems:
            self._kinds.mark_passed(row, resolved)
        return problems + self._name_problems(row, resolved)

    def plan(self, row: SourcedRequest) -> PlannedRequest:
        """Return the plan of a row with an id that `check` found no problem with.

        An input that has become unreadable since does not raise: the worker fails that request alone. Raises
        PromptFileError if the row was not checked and has a bad name or model.
        """
        key = self._models.key(row.request.model)
        try:
            card = self._models.facts(key).card
            assert card is not None, "planning needs what an engine reports of the model"
            resolved = self._kinds.resolve(row, card)
            seeds = self._seeds(resolved)
            return PlannedRequest(
                request=resolved.request,
                index=row.index,
                seeds=seeds,
                files=self._files(row, resolved, seeds),
                fingerprint=self._fingerprinter(key).fingerprint(resolved.request),
                shape=shape_of(resolved.request, card),
                floats_for=floats_for(resolved.form, self._config.output),
                inputs=self._fingerprinter(key).input_records(resolved.request),
            )
        except ModelLoadError as error:
            if key is None:
                raise
            raise PromptFileError([self._models.problem(key, row, error)]) from error
        except DiagnosticError as error:
            raise PromptFileError([_at_row(row, error)]) from error

    def check_all(self, rows: Iterable[SourcedRequest | Diagnostic]) -> int:
        """Check every row up to the limit; return the number of requests in this run's shard.

        Raises PromptFileError with the problems of all rows, equal ones as one, and their count.
        """
        problems, count = ProblemList(), 0
        for row in self.selected(rows):
            if row_problems := [row] if isinstance(row, Diagnostic) else self.check(row):
                problems.add(row_problems)
            count += not isinstance(row, Diagnostic) and self._in_shard(row)
        problems.raise_if_any()
        return count

    def estimate_space(
        self,
        rows: Iterable[SourcedRequest | Diagnostic],
        is_there: Callable[[str], bool] = lambda request_id: False,
    ) -> SpaceEstimate:
        """Return the space on disk that this run's share of `rows`, which passed the checks, takes.

        A request whose id `is_there` accepts has its files in place and takes none. Nothing is counted for a model
        without a card, whose output has an unknown size.
        """
        space = SpaceEstimate()
        for row in self.selected(rows):
            if isinstance(row, Diagnostic) or not self._in_shard(row) or is_there(row.request.id or ""):
                continue
            if (card := self._card_of(row.request)) is not None:
                space += self._kinds.space(row, card) + estimate_row(row.request)
        return space

    def plan_all(self, rows: Iterable[SourcedRequest | Diagnostic]) -> Iterator[PlannedRequest]:
        """Yield the plans of this run's limit and shard. Raises PromptFileError at a row that is a problem."""
        for row in self.selected(rows):
            if isinstance(row, Diagnostic):
                raise PromptFileError([row])
            if self._in_shard(row):
                yield self.plan(row)

    def plan_each(
        self, rows: Iterable[SourcedRequest | Diagnostic], reject: Reject, refuse: Refuse = lambda planned: ""
    ) -> Iterator[PlannedRequest]:
        """Check and plan row by row, for rows that can be read only once; call `reject` for each faulty row."""
        for row in self.selected(rows):
            if isinstance(row, Diagnostic):
                reject(None, [row])
                continue
            if not self._in_shard(row):
                continue
            problems = self.check(row)
            try:
                planned = None if problems else self.plan(row)
            except PromptFileError as error:
                problems, planned = list(error.problems), None
            if planned is not None and (reason := refuse(planned)):
                problems, planned = [row.problem("id", reason)], None
            if planned is None:
                reject(row, problems)
            else:
                yield planned

    def fingerprint_v1(self, planned: PlannedRequest, seeds: Sequence[int], model_id: str | None = None) -> str:
        """Return the fingerprint that 0.1.0 gave `planned` with these `seeds`, its model spelled as `model_id`."""
        key = planned.request.model
        if key not in self._fingerprinters_v1:
            self._fingerprinters_v1[key] = FingerprinterV1(*self._fingerprinted(key))
        return self._fingerprinters_v1[key].fingerprint(planned.request, seeds, model_id)

    def selected(self, rows: Iterable[SourcedRequest | Diagnostic]) -> Iterator[SourcedRequest | Diagnostic]:
        """Yield `rows` up to the limit, each request with an id: see `identity`."""
        return with_ids(self._limited(rows), self._base)

    def _limited(self, rows: Iterable[SourcedRequest | Diagnostic]) -> Iterator[SourcedRequest | Diagnostic]:
        """Yield `rows` up to the one that completes the limit, and read no further: the source may be a slow pipe."""
        limit = self._config.limit
        if limit is None:
            yield from rows
            return
        for row in rows:
            if not isinstance(row, Diagnostic) and row.index >= limit - 1:
                if row.index == limit - 1:
                    yield row
                return
            yield row

    def _in_shard(self, row: SourcedRequest) -> bool:
        """Return True for a request of this run's shard, by its id: other rows that come or go move none."""
        return self._config.shard is None or holds(self._config.shard, row.request.id or "")

    def _card_of(self, request: GenerationRequest) -> Card | None:
        return self._models.facts(self._models.key(request.model)).card

    def _fingerprinter(self, key: str | None) -> Fingerprinter:
        """Return the fingerprinter of the model `key`."""
        if key not in self._fingerprinters:
            self._fingerprinters[key] = Fingerprinter(*self._fingerprinted(key))
        return self._fingerprinters[key]

    def _fingerprinted(self, key: str | None) -> tuple[RunConfig, Card, ModelInfo, Mapping[str, str]]:
        """Return what fingerprints cover of the model `key`, and how it is loaded."""
        facts = self._models.facts(key)
        assert facts.card is not None
        assert facts.info is not None, "planning needs what an engine reports of the model"
        config = msgspec.structs.replace(self._config, model=self._models.config(key))
        return config, facts.card, facts.info, facts.versions

    def _seeds(self, resolved: Resolved) -> tuple[int, ...]:
        request = resolved.request
        assert request.id is not None
        assert request.num_outputs is not None
        return sample_seeds(request.seed, request.num_outputs, self._config.seed, request.id)

    def _files(self, row: SourcedRequest, resolved: Resolved, seeds: tuple[int, ...]) -> tuple[str, ...]:
        return file_names(resolved.request, row.index, seeds, self._template, resolved.form.extension)

    def _encoder_problems(self, row: SourcedRequest, resolved: Resolved) -> Iterator[Diagnostic]:
        """Yield a format that no installed encoder writes, or not at this size."""
        form, request = resolved.form, resolved.request
        if form.name not in self._format_faults:
            self._format_faults[form.name] = _message_of(lambda: find_backend(form, self._config.output))
        if fault := self._format_faults[form.name]:
            is_of_flag = resolved.explicit.format is not None and row.request.output is None
            yield field_problem(row, "format", fault) if is_of_flag else row.problem("format", fault)
            return
        width, height = request.width, request.height
        if form.codecs and width and height:
            fault = _message_of(lambda: check_size(form, self._config.output, width, height))
            if fault:
                side = "width" if width % 2 else "height"
                is_given = getattr(resolved.explicit, side) is not None
                yield field_problem(row, side, fault) if is_given else row.problem(side, fault)

    def _name_problems(self, row: SourcedRequest, resolved: Resolved) -> list[Diagnostic]:
        problems = self._names.id_problems(row)
        if problems:
            return problems
        try:
            files = self._files(row, resolved, self._seeds(resolved))
        except DiagnosticError as error:
            return [_at_row(row, error)]
        return self._names.file_problems(row, files, resolved.form.is_folder)


def _message_of(check: Callable[[], object]) -> str:
    """Return the message of the UsageError that `check` raises, or ""."""
    try:
        check()
    except UsageError as error:
        return str(error)
    return ""


def _at_row(row: SourcedRequest, error: DiagnosticError) -> Diagnostic:
    """Return the diagnostic of `error`, located where `row` gives the field."""
    diagnostic = error.diagnostic
    return row.problem(diagnostic.field, diagnostic.cause, diagnostic.remedy)


def _check_selection(config: RunConfig) -> None:
    interpolator = config.engine.interpolator
    if interpolator is not None and not expand_user(interpolator).is_file():
        raise UsageError(f"--interpolator {interpolator!r}: no such file; give a TorchScript module")
    if config.limit is not None and config.limit < 1:
        raise UsageError(f"--limit {config.limit}: must be 1 or more")
    if config.shard is not None and not (0 <= config.shard[0] <= config.shard[1] and config.shard[1] >= 1):
        number, of = config.shard
        raise UsageError(f"--shard {number}/{of}: must be I/N with I from 0 to N - 1, or from 1 to N")
