"""The names that a file gives its values: which of them mean fields of a request, and what becomes of the others.

--field prompt=prompt_en                  a name in the file means this field
--extra-columns error | ignore | keep     a name that means no field is a mistake, is left out, or goes to `meta`
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import msgspec

from omni_cli.errors import Diagnostic, UsageError
from omni_cli.prompts.fields import META, NAMES, field_of
from omni_cli.prompts.foreign_names import plain_name
from omni_cli.prompts.scan import Member, Node, Parsed
from omni_cli.text import did_you_mean, quote

ExtraColumns = Literal["error", "ignore", "keep"]


class Columns(msgspec.Struct, frozen=True):
    """`fields` maps names in the file to fields; `extra` says what becomes of names that mean no field.

    Names that are `optional` need not be there.
    """

    fields: Mapping[str, str] = {}
    extra: ExtraColumns = "error"
    optional: frozenset[str] = frozenset()

    @property
    def are_fields(self) -> bool:
        """True if every name must be that of a field."""
        return not self.fields and self.extra == "error"

    def name(self, key: str) -> str:
        """Return the field that the name `key` is mapped to, else `key`."""
        return self.fields.get(key, key)

    def column_name(self, written: str) -> str:
        """Return the key of a table's column: a field in any spelling ("CFG Scale"), else the name as written."""
        if written in self.fields or field_of(written) is not None:
            return written
        plain = plain_name(written)
        return written if field_of(plain) is None else plain

    def extra_keys(self, keys: Iterable[str]) -> set[str]:
        """Return those of `keys` that mean no field, or one that --field takes from another of them."""
        mapped = {self.fields[key] for key in keys if key in self.fields}
        return {key for key in keys if key not in self.fields and (key in mapped or field_of(key) is None)}

    def apply(self, parsed: Parsed) -> Parsed:
        """Return `parsed` with the names of fields, and with the other members left out or gathered in `meta`."""
        if self.are_fields:
            return parsed
        extra = self.extra_keys([member.key for member in parsed.members])
        fields = [member._replace(key=self.name(member.key)) for member in parsed.members if member.key not in extra]
        others = [member for member in parsed.members if member.key in extra]
        diagnostics = list(parsed.diagnostics)
        if self.extra == "keep" and others:
            fields = _with_meta(fields, others)
        elif self.extra == "error":
            fields += [member for member in others if field_of(member.key) is None]
            diagnostics += [_not_used(member) for member in others if field_of(member.key) is not None]
        return replace(parsed, node=Node(parsed.node.offset, tuple(fields)), diagnostics=diagnostics)


def parse_field_flags(flags: Sequence[str]) -> dict[str, str]:
    """Return names in the file by the field they mean, from `FIELD=NAME` texts; raises UsageError for an unknown field.

    A name may hold any character, also "=".
    """
    fields: dict[str, str] = {}
    for flag in flags:
        field, equals, name = flag.partition("=")
        if not equals or not name:
            raise UsageError(f"--field {quote(flag)}: expected FIELD=COLUMN, such as prompt=caption")
        if field_of(field) is None:
            advice = did_you_mean(field, NAMES, f"fields are {', '.join(NAMES)}")
            raise UsageError(f"--field {quote(flag)}: unknown field {quote(field)}; {advice}")
        if name in fields:
            raise UsageError(f"--field {quote(flag)}: the column {quote(name)} is already taken for {fields[name]}")
        fields[name] = field
    return fields


def _not_used(member: Member) -> Diagnostic:
    cause = f"{quote(member.key)} is not used: --field takes this field from another column"
    return Diagnostic(cause, "add --extra-columns keep or ignore", offset=member.offset)


def _with_meta(members: Sequence[Member], extra: Sequence[Member]) -> list[Member]:
    """Return `members` with `extra` in the member `meta`, after what that holds already."""
    given = next((member for member in members if member.key == META and isinstance(member.node.value, tuple)), None)
    inner = () if given is None or not isinstance(given.node.value, tuple) else given.node.value
    meta = Member(META, extra[0].offset, Node(extra[0].offset, (*inner, *extra)))
    return [*(member for member in members if member is not given), meta]
