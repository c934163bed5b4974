"""From the named members of a row to a request, or to every fault of the row."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from omni_cli.prompts import nested
from omni_cli.prompts.fields import RULES, SIZE, known, nearest, suggestion, targets
from omni_cli.prompts.nodes import Fault, Member, Node
from omni_cli.prompts.rules import Unfit, size
from omni_cli.prompts.shown import quoted
from omni_cli.request import GenerationRequest

MAX_FAULTS = 100
"""Faults of one row that are reported; a row with more is not a row of requests, and naming them all takes for ever."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a row's text says, in any format.

    `members` are named as written, `at` is the offset of the row's first character. `whole` is False if members may be
    missing because the text broke off: what the row does not say is then not held against it.
    """

    members: Sequence[Member]
    at: int = 0
    faults: Sequence[Fault] = ()
    whole: bool = True


def find(parsed: Parsed, field: str) -> int:
    """Offset of the value of `field`, under whatever name it was given; of the row itself if it was not."""
    for member in parsed.members:
        if field in targets(known(member.key)) or field == member.key:
            return member.node.at
    return parsed.at


def check(parsed: Parsed, defaults: GenerationRequest) -> GenerationRequest | list[Fault]:
    """The request that `parsed` asks for, or all its faults in the order of their place. `defaults` may stand in for inputs."""
    faults = list(parsed.faults)
    values: dict[str, Any] = {}
    given: dict[str, str] = {}
    meant: set[str] = set()
    for member in parsed.members:
        if len(faults) > MAX_FAULTS:
            break
        name = known(member.key)
        clash = next((given[target] for target in targets(name) if target in given), None)
        if name is None:
            faults.append(Fault(member.at, "", f"unknown field {quoted(member.key)}", suggestion(member.key)))
            meant.add(nearest(member.key))
        elif clash is not None:
            faults.append(_given_twice(member, name, clash))
        else:
            given.update(dict.fromkeys(targets(name), member.key))
            if member.node.value is not None:
                meant.add(name)
                values.update(_judged(name, member.node, faults))
    if parsed.whole and not _INPUTS & (meant - values.keys()):
        faults.extend(_missing_input(parsed, values, defaults))
    return sorted(faults, key=lambda fault: fault.at) if faults else GenerationRequest(**values)


def is_input(field: str | None) -> bool:
    """True if there can be something to generate from in `field`."""
    return field in _INPUTS


def has_input(request: GenerationRequest) -> bool:
    """True if there is something to generate from: a prompt that is not blank or its embeddings, a picture, a video, or other
    keywords.

    A pipeline that takes no prompt is asked through `extra` (`{"class_labels": [207]}`, `{"eta": 0.0}`).
    """
    prompt = request.prompt
    said = (prompt is not None and prompt.strip()) or request.prompt_embeds
    return bool(said or request.image or request.last_image or request.video or request.extra)


def _judged(name: str, node: Node, faults: list[Fault]) -> dict[str, Any]:
    """The fields that `name` gives values to; a fault is noted, and the field left out."""
    if name in _NESTED:
        before = len(faults)
        value = _NESTED[name](node, faults)
        return {name: value} if len(faults) == before else {}
    try:
        if name != SIZE:
            return {name: RULES[name](node.value)}
        sides = size(node.value)
        return {} if sides is None else {"width": sides[0], "height": sides[1]}
    except Unfit as unfit:
        faults.append(Fault(node.at, name, unfit.message, unfit.allowed))
        return {}


def _missing_input(parsed: Parsed, values: dict[str, Any], defaults: GenerationRequest) -> list[Fault]:
    """The fault of a row that gives nothing to generate from, where the defaults do not either."""
    inputs = GenerationRequest(**{field: values[field] for field in _INPUTS & values.keys()})
    if has_input(inputs) or has_input(defaults):
        return []
    what = "is empty" if "prompt" in values else "is missing"
    return [Fault(find(parsed, "prompt"), "prompt", what, "give a prompt, or an image or a video to start from")]


def _given_twice(member: Member, name: str, other: str) -> Fault:
    how = "is given twice" if other == member.key else f"is given as {quoted(other)} and as {quoted(member.key)}"
    return Fault(member.at, name, how, "keep one")


_INPUTS = frozenset({"prompt", "prompt_embeds", "image", "last_image", "video", "extra"})

_NESTED: dict[str, Callable[[Node, list[Fault]], Any]] = {
    "image": nested.image,
    "lora": nested.lora,
    "extra": nested.extra,
}
