"""From the rows of a prompt list to the requests of a run: a row may become several.

row ── alternatives ──> every combination, or some ── syntax of its texts ── matrix ──> every combination ── repeat

Nothing is held in memory: requests are made while they are read. They are numbered in their order, those of faulty rows
included. A request whose row gives an id or an output gets one of its own, made of what varies; the other ids are made
of the content of the requests, as of any (see `planner.identity`).
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import product
from math import prod
from pathlib import Path, PurePosixPath
from random import Random
from typing import Any

from msgspec import structs

from omni_cli.config import PromptsConfig, RunConfig
from omni_cli.errors import Diagnostic, DiagnosticError, UsageError
from omni_cli.prompts.matrix import matrix_axes
from omni_cli.prompts.prompt_syntax import ReadPrompt, SyntaxReader
from omni_cli.prompts.row import LocatedRequest, Rows
from omni_cli.prompts.syntax_watch import SyntaxWatch, alternatives_in
from omni_cli.prompts.templates import MANY, Template, count, draw, parse_template, texts
from omni_cli.prompts.wildcards import Wildcards
from omni_cli.request import MAX_SEED, GenerationRequest
from omni_cli.text import quote

MAX_PER_ROW = 100_000
"""Requests that one row may become unless `limit` says how many are wanted."""

MAX_REQUESTS = 1_000_000
"""Requests that a whole list may become unless `limit` says how many are wanted; lists without flags have no limit."""

MAX_REPEAT = 100_000

_TEXTS = ("prompt", "negative_prompt")


class ExpandedRequest(LocatedRequest, frozen=True):
    """A request that a row, `origin`, has become.

    `flags` are those of the command line that gave it fields, by field; `places` the characters of the row's prompt
    that gave others.
    """

    origin: LocatedRequest
    flags: Mapping[str, str] = {}
    places: Mapping[str, int] = {}

    def problem(self, field: str, cause: str, remedy: str = "") -> Diagnostic:
        """Return the diagnostic of `field`: the flag that gave it, or located where the row or its prompt does."""
        if field in self.flags:
            return Diagnostic(cause, remedy, self.flags[field])
        if field in self.places:
            problem = self.origin.problem_in_text("prompt", self.places[field], cause, remedy)
            return structs.replace(problem, field=field)
        return self.origin.problem(field, cause, remedy)


class Expander:
    """Makes the requests of a run from the rows of its prompt list, the same in every pass over it."""

    def __init__(self, config: RunConfig) -> None:
        """Expand as `config.prompts` says. Raises UsageError for a setting that cannot be used."""
        self._config, self._settings = config, config.prompts
        self._axes = matrix_axes(self._settings.matrix)
        self._flags = {field: axis.flag for axis in self._axes for field in axis.values[0][0]}
        self._wildcards: Wildcards | None = None
        negative, syntax = config.defaults.negative_prompt, self._settings.syntax
        self._syntax = SyntaxReader(self._settings.lora_dir, negative) if syntax == "a1111" else None
        self._watch = SyntaxWatch(negative, expands=self._settings.expand != 0) if syntax == "auto" else None
        _check(self._settings, self._flags)
        self._check_texts_of_flags()
        if self._settings.wildcards is not None:
            self._wildcards = Wildcards(self._settings.wildcards, Path())

    def _check_texts_of_flags(self) -> None:
        """Raise UsageError for alternatives in the text of a flag, as they are read in rows alone."""
        texts_of_flags = [("--negative-prompt", self._config.defaults.negative_prompt)]
        for axis in self._axes:
            texts_of_flags += [(axis.flag, fields.get("negative_prompt")) for fields, _ in axis.values]
        for flag, text in texts_of_flags if self._settings.expand else ():
            if text is not None and (shown := alternatives_in(text)):
                raise UsageError(f"{flag}: {quote(shown)}: alternatives are read in rows only; write them there")

    def rows(self, rows: Rows, base: Path, *, endless: bool = False) -> Rows:
        """Yield what `rows` become; `base` is the folder of relative paths.

        `endless`: the rows are those of a pipe that stays open, whose number has no limit.
        """
        rows = rows if self._watch is None else self._watch.rows(rows, endless=endless)
        if not (self._syntax or self._settings.expand or self._axes or self._settings.repeat > 1):
            return rows
        if self._wildcards is None:
            self._wildcards = Wildcards(None, base)
        return self._expanded(rows, endless=endless)

    def _expanded(self, rows: Rows, *, endless: bool) -> Rows:
        added = 0
        for row in rows:
            if isinstance(row, Diagnostic):
                yield row
                continue
            made = 0
            for item in self._requests(row):
                if isinstance(item, LocatedRequest):
                    item = structs.replace(item, index=row.index + added + made)
                    made += 1
                yield item
            added += max(made - 1, 0)
            if added and self._config.limit is None and not endless and row.index + added >= MAX_REQUESTS:
                yield row.problem("", f"the rows up to here become more than {MAX_REQUESTS:,} requests", _ASK)
                return

    def _requests(self, row: LocatedRequest) -> Rows:
        """Yield the requests of `row`, or its mistakes; their index is still that of the row."""
        templates: list[Template] = []
        for field in _TEXTS if self._settings.expand else ():
            try:
                templates.append(self._template(getattr(row.request, field)))
            except DiagnosticError as error:
                fault = error.diagnostic
                yield row.problem_in_text(field, fault.offset, fault.cause, fault.remedy)
                return
        number = self._number_of_requests(templates)
        if number >= MANY or (number > MAX_PER_ROW and self._config.limit is None):
            shown = "more requests than can be counted" if number >= MANY else f"{number:,} requests"
            yield row.problem("", f"this row becomes {shown}; at most {MAX_PER_ROW:,} are made unasked", _ASK)
            return
        for request, label in self._with_texts(row.request, templates):
            try:
                yield from self._with_matrix(row, request, label)
            except DiagnosticError as error:
                fault = error.diagnostic
                if fault.field in self._flags:
                    yield Diagnostic(fault.cause, fault.remedy, self._flags[fault.field])
                else:
                    offset = fault.offset if request == row.request else 0
                    yield row.problem_in_text(fault.field, offset, fault.cause, fault.remedy)
                return

    def _template(self, text: str | None) -> Template:
        assert self._wildcards is not None
        return () if text is None else parse_template(text, self._wildcards.template)

    def _number_of_requests(self, templates: Sequence[Template]) -> int:
        combinations, wanted = prod(map(count, templates)), self._settings.expand
        if isinstance(wanted, int) and wanted:
            combinations = min(combinations, wanted)
        return combinations * prod(len(axis.values) for axis in self._axes) * self._settings.repeat

    def _with_texts(
        self, request: GenerationRequest, templates: Sequence[Template]
    ) -> Iterator[tuple[GenerationRequest, str]]:
        """Yield `request` with each combination of its texts, and what an id is extended by."""
        number = prod(map(count, templates))
        equal: dict[str, int] = {}  # of texts that differ in their options, but not in their words
        for combination in self._combinations(request, templates, number):
            values = {
                field: text
                for field, text in zip(_TEXTS, combination, strict=False)
                if getattr(request, field) is not None
            }
            label = f"-{_hash_of(combination)}" if number > 1 else ""
            if label and (request.id is not None or request.output is not None):
                equal[label] = equal.get(label, 0) + 1
                label += f".{equal[label]}" if equal[label] > 1 else ""
            yield structs.replace(request, **values), label

    def _combinations(
        self, request: GenerationRequest, templates: Sequence[Template], number: int
    ) -> Iterator[tuple[str, ...]]:
        """Yield every combination, or as many different ones as are asked for, drawn by the run's seed and texts."""
        wanted = self._settings.expand
        if wanted == "all" or number <= wanted or not templates:
            yield from _product(templates)
            return
        random = Random(f"{self._config.seed}\n{request.prompt}\n{request.negative_prompt}")
        drawn: set[tuple[str, ...]] = set()
        for _ in range(wanted * _DRAWS_PER_TEXT):
            texts_drawn = tuple(draw(template, random) for template in templates)
            if texts_drawn not in drawn:
                drawn.add(texts_drawn)
                yield texts_drawn
            if len(drawn) == wanted:
                return

    def _with_matrix(self, row: LocatedRequest, request: GenerationRequest, label: str) -> Iterator[LocatedRequest]:
        """Yield `request` with each combination of the matrix, as often as it is repeated.

        Raises DiagnosticError for syntax in its texts that cannot be read.
        """
        for point in product(*(axis.values for axis in self._axes)):
            fields: dict[str, Any] = {}
            for values, _ in point:
                fields |= values
            read = self._read(request, fields)
            if read is None:
                return
            words = label + "".join(f"-{name}" for _, name in point)
            for number in range(self._settings.repeat):
                suffix = words + (f"-{number + 1}" if number else "")
                names, seed = _names(read.request, suffix), self._seed(read.request, number)
                named = structs.replace(read.request, **names, **seed)
                yield ExpandedRequest(named, row.index, row.row, row, self._flags, read.places)

    def _read(self, request: GenerationRequest, fields: dict[str, Any]) -> ReadPrompt | None:
        """Return `request` with `fields`, which win over those that its prompt gives, and its syntax read."""
        if self._syntax is None:
            return ReadPrompt(structs.replace(request, **fields), {})
        texts_given = {field: fields[field] for field in _TEXTS if field in fields}
        read = self._syntax.read(structs.replace(request, **texts_given))
        others = {field: value for field, value in fields.items() if field not in texts_given}
        return read and read._replace(request=structs.replace(read.request, **others))

    def _seed(self, request: GenerationRequest, number: int) -> dict[str, int]:
        """Return the seed of a repetition: it goes on where the outputs of the one before end."""
        if request.seed is None or not number:
            return {}
        outputs = request.num_outputs or self._config.defaults.num_outputs or 1
        return {"seed": (request.seed + number * outputs) % (MAX_SEED + 1)}


def _product(templates: Sequence[Template]) -> Iterator[tuple[str, ...]]:
    """Yield every combination of the texts of `templates`, without holding them in memory."""
    if not templates:
        yield ()
        return
    for text in texts(templates[0]):
        for rest in _product(templates[1:]):
            yield (text, *rest)


def _names(request: GenerationRequest, suffix: str) -> dict[str, str]:
    """Return the id and the output that `request` gives, each with `suffix`, which goes before an extension."""
    names: dict[str, str] = {}
    if request.id is not None:
        names["id"] = request.id + suffix
    if request.output is not None:
        path = PurePosixPath(request.output)
        names["output"] = str(path.with_name(f"{path.stem}{suffix}{path.suffix}"))
    return names


def _hash_of(combination: Sequence[str]) -> str:
    encoded = "\0".join(combination).encode("utf-8", "surrogatepass")
    return blake2b(encoded, digest_size=4, person=b"omni-gen texts").hexdigest()


def _check(settings: PromptsConfig, varied: Container[str]) -> None:
    """Raise UsageError for a setting that is out of range or contradicts another."""
    if not 1 <= settings.repeat <= MAX_REPEAT:
        raise UsageError(f"--repeat {settings.repeat}: must be a number from 1 to {MAX_REPEAT:,}")
    if settings.expand != "all" and not 0 <= settings.expand <= MAX_PER_ROW:
        raise UsageError(f"--expand {settings.expand}: must be all, or a number from 1 to {MAX_PER_ROW:,}")
    if settings.repeat > 1 and "seed" in varied:
        remedy = "give --matrix seed more values instead"
        raise UsageError(f"--repeat {settings.repeat}: --matrix seed would make the same outputs again; {remedy}")


_DRAWS_PER_TEXT = 20
"""Draws for each text that is wanted, as some are drawn twice."""

_ASK = "--limit N renders the first N, however many they are"
