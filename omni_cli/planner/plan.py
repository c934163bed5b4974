"""Planning, in two walks over the same prompt file: one finds every problem, one makes the plan. Both are streams.

rows ── check_all ──> PromptFileError with all problems, or how many requests are this run's
rows ── plan_all ───> PlannedRequest, PlannedRequest, ...  ── batches ──> pipeline calls
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from omni_cli.config import PREVIEW_SUFFIX, RunConfig
from omni_cli.errors import ModelLoadError, Problem, PromptFileError, UsageError
from omni_cli.models.cards import Card
from omni_cli.planner.alike import Alike
from omni_cli.planner.batches import batch_key
from omni_cli.planner.checks import card_problems
from omni_cli.planner.claims import Claims
from omni_cli.planner.files import file_names
from omni_cli.planner.fingerprint import Fingerprinter
from omni_cli.planner.inputs import Inputs
from omni_cli.planner.located import Located
from omni_cli.planner.models import Models
from omni_cli.planner.naming import Misnamed
from omni_cli.planner.places import Places
from omni_cli.planner.resolve import Resolved, id_of, resolve
from omni_cli.planner.room import room_of
from omni_cli.planner.seeds import sample_seeds
from omni_cli.planner.template import NameTemplate
from omni_cli.planner.tensors import tensor_problems
from omni_cli.prompts.shown import quoted
from omni_cli.request import GenerationRequest, PlannedRequest
from omni_cli.writers.codecs import check_settings
from omni_cli.writers.formats import check_available, check_side, floats_for
from omni_cli.writers.room import Room

Reject = Callable[[Located | None, list[Problem]], None]
"""Takes a row that cannot be rendered, None where not even a request could be read, and what is wrong with it."""

MAX_PROBLEMS = 1000
"""Problems that are listed; the rest is counted."""


class Planner:
    """Checks and plans the requests of one run.

    `base` is where relative input paths start: the prompt file's folder, the working folder for stdin. `models` is asked for
    the model of each row; planning needs what an engine said of it, checking does not, and what it knows no card of is
    judged by the file alone.
    """

    def __init__(self, config: RunConfig, models: Models, base: Path = Path()) -> None:
        """Raises UsageError for a name template, limit or shard that cannot be used."""
        self._config, self._models, self._base = config, models, base
        self._template = NameTemplate(config.output.name_template)
        self._fingerprinters: dict[str | None, Fingerprinter] = {}
        self._claims, self._inputs, self._places = Claims(), Inputs(), Places(config.output.output_dir)
        self._alike = Alike(config.output.name_template)
        self._lacking: dict[str, str | None] = {}
        _check_selection(config)
        check_settings(config.output)

    def check(self, located: Located) -> list[Problem]:
        """All problems of `located` that only planning can see. Remembers its id and files: check each request once."""
        request_id = id_of(located.request, located.index)
        file = self._alike.file(located.request, request_id)
        if file is not None:
            taken = self._claim_id(located, request_id)
            return taken if taken else self._claim_file(located, file)
        unknown = self._models.problems(located)
        if unknown:
            return unknown
        key = self._models.key(located.request.model)
        card = self._models.facts(key).card
        if card is None:
            return []
        try:
            resolved = resolve(located.request, located.index, self._config, card, self._base, key)
        except Misnamed as error:
            return [located.problem(error.field, error.message, error.allowed)]
        except UsageError as error:
            return [located.problem("format", str(error))]
        problems = [
            *card_problems(located, resolved, card),
            *tensor_problems(located, resolved, card),
            *self._codec_problems(located, resolved),
            *self._inputs.problems(located, resolved.request),
        ]
        if not problems:
            self._alike.remember(located.request, resolved)
        return problems + self._name_problems(located, resolved)

    def plan(self, located: Located) -> PlannedRequest:
        """The plan of a request that `check` found no problem with.

        An input that has become unreadable since is the worker's to tell: it fails that request, and not the run. Raises
        PromptFileError if the request was not checked and has a bad name or model.
        """
        key = self._models.key(located.request.model)
        try:
            card = self._models.facts(key).card
            assert card is not None, "planning needs what an engine says of the model"
            resolved = resolve(located.request, located.index, self._config, card, self._base, key)
            seeds = self._seeds(resolved)
            return PlannedRequest(
                request=resolved.request,
                index=located.index,
                seeds=seeds,
                files=self._files(located, resolved, seeds),
                fingerprint=self._fingerprinter(key).fingerprint(resolved.request, seeds),
                batch_key=batch_key(resolved.request, card),
                floats_for=floats_for(resolved.form, self._config.output),
            )
        except ModelLoadError as error:
            if key is None:
                raise
            raise PromptFileError([self._models.problem(key, located, error)]) from error
        except Misnamed as error:
            raise PromptFileError([located.problem(error.field, error.message, error.allowed)]) from error

    def check_all(self, rows: Iterable[Located | Problem]) -> int:
        """Check every row up to the limit; the number of requests that fall to this run's shard.

        Raises PromptFileError with the problems of all rows, at most MAX_PROBLEMS of them and a count of the rest.
        """
        problems: list[Problem] = []
        more, count = 0, 0
        for row in self._limited(rows):
            found = [row] if isinstance(row, Problem) else self.check(row)
            if found:
                room = MAX_PROBLEMS - len(problems)
                problems += found[:room]
                more += len(found[room:])
            count += not isinstance(row, Problem) and self._in_shard(row)
        if more:
            problems.append(Problem(problems[-1].source, 0, 0, "", f"and {more} more problems"))
        if problems:
            raise PromptFileError(problems)
        return count

    def room(self, rows: Iterable[Located | Problem], is_there: Callable[[str], bool] = lambda id_: False) -> Room:
        """Room that this run's share of `rows` takes on disk; see `room_of`. Raises nothing for rows that `check_all` let pass."""
        share = (row for row in self._limited(rows) if not isinstance(row, Problem) and self._in_shard(row))
        return room_of(share, self._config, self._card_of, is_there)

    def plan_all(self, rows: Iterable[Located | Problem]) -> Iterator[PlannedRequest]:
        """The plans of this run's limit and shard, one by one. Raises PromptFileError at a row that is a problem."""
        for row in self._limited(rows):
            if isinstance(row, Problem):
                raise PromptFileError([row])
            if self._in_shard(row):
                yield self.plan(row)

    def plan_each(self, rows: Iterable[Located | Problem], reject: Reject) -> Iterator[PlannedRequest]:
        """Check and plan row by row, for rows that cannot be read twice; `reject` is told what is wrong with one, and the rest go on."""
        for row in self._limited(rows):
            if isinstance(row, Problem):
                reject(None, [row])
                continue
            if not self._in_shard(row):
                continue
            problems = self.check(row)
            try:
                planned = None if problems else self.plan(row)
            except PromptFileError as error:
                problems, planned = list(error.problems), None
            if planned is None:
                reject(row, problems)
            else:
                yield planned

    def _limited(self, rows: Iterable[Located | Problem]) -> Iterator[Located | Problem]:
        """`rows` up to the one that completes the limit, and not one further: the source may be a slow pipe."""
        limit = self._config.limit
        if limit is None:
            yield from rows
            return
        for row in rows:
            if not isinstance(row, Problem) and row.index >= limit - 1:
                if row.index == limit - 1:
                    yield row
                return
            yield row

    def _in_shard(self, row: Located) -> bool:
        """True for every N-th row from the I-th: shards differ by at most one request, and one does not shift another."""
        if self._config.shard is None:
            return True
        number, of = self._config.shard
        return row.index % of == number - 1

    def _card_of(self, request: GenerationRequest) -> Card | None:
        return self._models.facts(self._models.key(request.model)).card

    def _fingerprinter(self, key: str | None) -> Fingerprinter:
        """One per model."""
        if key not in self._fingerprinters:
            facts = self._models.facts(key)
            assert facts.card is not None
            assert facts.info is not None, "planning needs what an engine says of the model"
            config = msgspec.structs.replace(self._config, model=self._models.config(key))
            self._fingerprinters[key] = Fingerprinter(config, facts.card, facts.info, facts.versions)
        return self._fingerprinters[key]

    def _seeds(self, resolved: Resolved) -> tuple[int, ...]:
        request = resolved.request
        assert request.id is not None
        assert request.num_outputs is not None
        return sample_seeds(request.seed, request.num_outputs, self._config.seed, request.id)

    def _files(self, located: Located, resolved: Resolved, seeds: tuple[int, ...]) -> tuple[str, ...]:
        return file_names(resolved.request, located.index, seeds, self._template, resolved.form.extension)

    def _codec_problems(self, located: Located, resolved: Resolved) -> Iterator[Problem]:
        """A format that nothing here can encode; asked once per format."""
        name = resolved.form.name
        if name not in self._lacking:
            try:
                check_available(resolved.form, self._config.output)
                self._lacking[name] = None
            except UsageError as error:
                self._lacking[name] = str(error)
        lacking = self._lacking[name]
        if lacking is not None:
            yield located.problem("format", lacking)
            return
        width, height = resolved.request.width, resolved.request.height
        if resolved.form.codecs and width and height:
            try:
                check_side(resolved.form, self._config.output, width, height)
            except UsageError as error:
                yield located.problem("width" if width % 2 else "height", str(error))

    def _name_problems(self, located: Located, resolved: Resolved) -> list[Problem]:
        """A second id, or a file that cannot be placed, or that another request has."""
        assert resolved.request.id is not None
        taken = self._claim_id(located, resolved.request.id)
        if taken:
            return taken
        try:
            files = self._files(located, resolved, self._seeds(resolved))
        except Misnamed as error:
            return [located.problem(error.field, error.message, error.allowed)]
        for path in files:
            problems = self._claim_file(located, path, resolved.form.is_folder)
            if problems:
                return problems
        return []

    def _claim_id(self, located: Located, request_id: str) -> list[Problem]:
        first = self._claims.claim_id(request_id, located.line)
        if first is None:
            return []
        return [
            located.problem("id", f"{quoted(request_id)} is already the id of line {first}", "ids must differ"),
        ]

    def _claim_file(self, located: Located, path: str, folder: bool = False) -> list[Problem]:
        fault = self._places.fault(path, folder)
        if not fault and self._config.engine.preview_every and path.casefold().endswith(PREVIEW_SUFFIX):
            fault = f"ends in {PREVIEW_SUFFIX}, as the previews of --preview-every do"
        first = None if fault else self._claims.claim_file(path, located.line)
        if not fault and first is None:
            return []
        field = "id" if located.request.output is None else "output"
        reason = fault or f"clashes with a file of line {first}; names are compared without case"
        return [
            located.problem(field, f"the file {quoted(path, 200)} {reason}", "give it another name with output"),
        ]


def _check_selection(config: RunConfig) -> None:
    made_by = config.engine.interpolator
    if made_by is not None and not Path(made_by).expanduser().is_file():
        raise UsageError(f"--interpolator {made_by!r}: no such file; give a TorchScript module")
    if config.limit is not None and config.limit < 1:
        raise UsageError(f"--limit {config.limit}: must be 1 or more")
    if config.shard is not None and not 1 <= config.shard[0] <= config.shard[1]:
        number, of = config.shard
        raise UsageError(f"--shard {number}/{of}: must be I/N with 1 <= I <= N")
