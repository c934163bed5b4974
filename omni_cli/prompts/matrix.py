"""`--matrix FIELD=VALUES`: the values of a field with which every row is rendered.

--matrix guidance_scale=3,5,7         a list
--matrix seed=1..4,100                ranges, both ends included
--matrix size=512x512,832x480         texts; the name is that of a field, or an alias
--matrix 'negative_prompt=["", "blurry, dark"]'      JSON, for any value: texts with commas, lists, objects
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from omni_cli.errors import UsageError
from omni_cli.inputs import with_absolute_paths
from omni_cli.prompts.fields import FIELDS, NAMES, NUMBERS, field_of
from omni_cli.prompts.objects import validate_fields
from omni_cli.prompts.scan import number
from omni_cli.request import GenerationRequest
from omni_cli.text import did_you_mean, quote

MAX_VALUES = 100_000
"""Values of one field."""

_NOT_VARIED: Mapping[str, str] = {
    "id": "each request gets an id of its own",
    "output": "each request gets a name of its own; see --name-template",
    "prompt": "give each prompt a row, or write {a|b} in it and pass --expand all",
    "num_outputs": "outputs of one request differ in their seeds: vary seed, or use --repeat",
    "meta": "it changes nothing that is rendered",
}


class Axis(msgspec.Struct, frozen=True):
    """The values of one `--matrix` flag, each as the fields that it sets and the text that tells it apart in ids."""

    name: str
    values: Sequence[tuple[dict[str, Any], str]]

    @property
    def flag(self) -> str:
        """The name under which mistakes are told."""
        return f"--matrix {self.name}"


def parse_matrix_flags(flags: Iterable[str]) -> dict[str, Sequence[Any]]:
    """Return the values of each `FIELD=VALUES` text by the name of the field. Raises UsageError."""
    matrix: dict[str, Sequence[Any]] = {}
    for flag in flags:
        name, equals, text = flag.partition("=")
        name = name.strip()
        if not equals or not name or not text.strip():
            raise UsageError(
                f"--matrix {quote(flag)}: expected FIELD=VALUES, such as guidance_scale=3,5,7 or seed=1..4"
            )
        if name in matrix:
            raise UsageError(f"--matrix {quote(flag)}: {name} is given twice; list all its values in one flag")
        matrix[name] = _json_values(name, text) if text.lstrip().startswith("[") else list(_values(name, text))
    return matrix


def matrix_axes(matrix: Mapping[str, Sequence[Any]]) -> list[Axis]:
    """Return the checked axes of a matrix; relative input paths start at the working folder.

    Raises UsageError that lists every field and value that cannot be used.
    """
    problems: list[str] = []
    axes = [_axis(name, values, problems) for name, values in matrix.items()]
    fields = [field for axis in axes for field in (axis.values[0][0] if axis.values else ())]
    twice = [field for field in dict.fromkeys(fields) if fields.count(field) > 1]
    problems += [f"--matrix {field}: is varied twice; keep one" for field in twice]
    if problems:
        raise UsageError("\n".join(problems))
    return axes


def _axis(name: str, values: Sequence[Any], problems: list[str]) -> Axis:
    field = field_of(name)
    if field is None or field in _NOT_VARIED:
        advice = _NOT_VARIED.get(field or "") or did_you_mean(name, NAMES, f"fields are {', '.join(FIELDS)}")
        what = "unknown field" if field is None else "this field is not varied"
        problems.append(f"--matrix {quote(name)}: {what}; {advice}")
        return Axis(name, ())
    if isinstance(values, str) or not isinstance(values, Sequence) or not 0 < len(values) <= MAX_VALUES:
        problems.append(f"--matrix {name}: expected a list of 1 to {MAX_VALUES:,} values")
        return Axis(name, ())
    checked: dict[str, dict[str, Any]] = {}
    for value in values:
        request = validate_fields({name: value})
        if not isinstance(request, GenerationRequest):
            problems += [_message(name, value, problem.cause, problem.remedy) for problem in request]
            continue
        fields = _given_fields(with_absolute_paths(request, Path()))
        key = msgspec.json.encode(fields, order="deterministic").decode()
        if not fields or key in checked:
            problems.append(_message(name, value, "is given twice" if fields else "is no value", "leave it out"))
        checked[key] = fields
    return Axis(name, [(fields, _label(fields)) for fields in checked.values()])


def _message(name: str, value: object, cause: str, remedy: str) -> str:
    return f"--matrix {name}={quote(str(value))}: {cause}" + (f"; {remedy}" if remedy else "")


def _given_fields(request: GenerationRequest) -> dict[str, Any]:
    return {field: value for field in FIELDS if (value := getattr(request, field)) is not None}


def _label(fields: Mapping[str, Any]) -> str:
    """Return what an id is extended by: `guidance_scale-3.5`; of a value that is no plain word, a hash."""
    return "-".join(f"{field}-{_word(value)}" for field, value in fields.items())


def _word(value: Any) -> str:
    text = f"{value:.12g}" if isinstance(value, float) else str(value)
    if isinstance(value, int | float | str) and _PLAIN_WORD.fullmatch(text):
        return text
    encoded = msgspec.json.encode(value, order="deterministic")
    return blake2b(encoded, digest_size=4, person=b"omni-gen value").hexdigest()


def _json_values(name: str, text: str) -> list[Any]:
    try:
        return msgspec.json.decode(text, type=list[Any])
    except msgspec.MsgspecError as error:
        raise UsageError(f"--matrix {name}: {error}; expected a JSON list, such as [3, 5, 7]") from error


def _values(name: str, text: str) -> Iterator[Any]:
    """Yield the values of a list like `3,5,7` or `1..4,10`. Raises UsageError."""
    count = 0
    for part in (part.strip() for part in text.split(",")):
        span = _RANGE.fullmatch(part)
        first, last = (int(span[1]), int(span[2])) if span else (0, 0)
        if not part or first > last:
            cause = f"{quote(part)} counts down" if part else "a value is missing between commas"
            raise UsageError(f"--matrix {name}={quote(text)}: {cause}; write it as in 3,5,7 or 1..4")
        count += last - first + 1
        if count > MAX_VALUES:
            raise UsageError(f"--matrix {name}={quote(text)}: {count:,} values; at most {MAX_VALUES:,} are taken")
        yield from range(first, last + 1) if span else (_value(name, part),)


def _value(name: str, part: str) -> Any:
    value = number(part) if field_of(name) in NUMBERS else None
    return part if value is None else value


_RANGE = re.compile(r"(-?[0-9]{1,19})\.\.(-?[0-9]{1,19})")
_PLAIN_WORD = re.compile(r"[A-Za-z0-9_.+-]{1,32}")
