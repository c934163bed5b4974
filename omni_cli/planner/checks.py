"""What a card cannot do for a request, said before anything is loaded or run."""

import difflib
from collections.abc import Iterator

import msgspec

from omni_cli.errors import Problem, UsageError
from omni_cli.media import Kind
from omni_cli.models.cards import Card
from omni_cli.models.keywords import COUNTS, NAMES, OUTPUT_ONLY, OWNED, RESERVED, TEXTS
from omni_cli.models.signature import parameters_of
from omni_cli.planner.located import Located
from omni_cli.planner.naming import split_extension
from omni_cli.planner.resolve import Resolved
from omni_cli.planner.values import misfit, shown
from omni_cli.prompts.shown import escaped, quoted
from omni_cli.writers.formats import LATENT, check_fps, names_for, resolve_format

_KEYWORDS = {field: names for field, names in NAMES.items() if field not in OUTPUT_ONLY} | {
    text: (text,) for text in TEXTS
}
"""Fields that become keywords of a pipeline's call, and the names diffusers has for them. All other fields are handled here."""


def card_problems(located: Located, resolved: Resolved, card: Card) -> Iterator[Problem]:
    """All that keeps the pipeline of `card` from doing exactly what was asked."""
    yield from _sizes(located, resolved, card)
    yield from _frames(located, resolved, card)
    yield from _format(located, resolved)
    yield from _between(located, resolved)
    if card.parameters:
        yield from _parameters(located, resolved, card)
    yield from _extra(located, resolved, card)
    yield from _carried(located, resolved)


def _sizes(located: Located, resolved: Resolved, card: Card) -> Iterator[Problem]:
    for field, value in (("height", resolved.said.height), ("width", resolved.said.width)):
        if value is not None and not card.sizes.size_ok(value):
            near = " and ".join(map(str, card.sizes.nearest_sizes(value)))
            message = f"{value}{_origin(located, field)} is not a multiple of {card.sizes.multiple}"
            yield located.problem(field, message, _nearest(near))


def _frames(located: Located, resolved: Resolved, card: Card) -> Iterator[Problem]:
    frames = resolved.said.num_frames
    if frames is None:
        return
    shown = f"{frames}{_origin(located, 'num_frames')}"
    if card.kind is not Kind.VIDEO:
        if frames != 1:
            yield located.problem("num_frames", f"{shown}: {card.pipeline} makes no video", "leave it out, or write 1")
    elif not card.sizes.frames_ok(frames):
        near = " and ".join(map(str, card.sizes.nearest_frames(frames)))
        rule = f"{card.sizes.frame_step}·k + {card.sizes.frame_offset}"
        yield located.problem("num_frames", f"{shown} is not {rule}", _nearest(near))


def _format(located: Located, resolved: Resolved) -> Iterator[Problem]:
    """The format must hold the kind, agree with the extension of `output`, and have the fps that it needs."""
    request, form, kind = located.request, resolved.form, resolved.kind
    written = split_extension(request.output.rpartition("/")[2])[1] if request.output else ""
    if request.format and written and resolve_format(written).extension != form.extension:
        yield located.problem("output", f"ends in .{written}, but format is {request.format}", "make them agree")
    elif kind not in form.kinds:
        field = "output" if written and not request.format else "format"
        allowed = f"formats for {kind}: {names_for(kind) or 'none'}"
        yield located.problem(
            field, f"{form.name}{_origin(located, 'format', written)} cannot hold {kind} output", allowed
        )
    elif kind is Kind.VIDEO:
        try:
            fps = resolved.request.fps
            check_fps(form, None if fps is None else fps * (resolved.request.interpolate or 1))
        except UsageError as error:
            yield located.problem("fps", str(error))


def _between(located: Located, resolved: Resolved) -> Iterator[Problem]:
    """Frames can be made between the frames of a video; a flag speaks for those requests that make one."""
    if (located.request.interpolate or 1) > 1 and resolved.request.interpolate is None:
        what = "latents" if resolved.form.name == LATENT else f"{resolved.kind} output"
        yield located.problem("interpolate", f"there are no frames in {what}", "leave it out")


def _parameters(located: Located, resolved: Resolved, card: Card) -> Iterator[Problem]:
    for field, names in _KEYWORDS.items():
        if getattr(resolved.said, field) is None or any(name in card.parameters for name in names):
            continue
        if field == "num_frames" and (card.kind is not Kind.VIDEO or resolved.said.video is not None):
            continue  # of an input clip it says how much is read
        yield located.problem(field, f"{card.pipeline} takes no {names[0]}{_origin(located, field)}", "leave it out")


def _extra(located: Located, resolved: Resolved, card: Card) -> Iterator[Problem]:
    extra = resolved.said.extra or {}
    kinds = parameters_of(card.pipeline) or {} if extra else {}
    for key, value in extra.items():
        if key in OWNED:
            yield located.problem("extra", f"{quoted(key)} is set by omni-gen", "leave it out")
        elif key in COUNTS:
            yield located.problem("extra", f"{quoted(key)} is what num_outputs is for", "use num_outputs")
        elif key in _KEYWORDS:
            yield located.problem("extra", f"{quoted(key)} is a field of its own", "move it out of extra")
        elif card.parameters and key not in card.parameters:
            near = difflib.get_close_matches(key[:40], _open(card), n=1)
            advice = f"did you mean {near[0]}?" if near else f"it takes {', '.join(_open(card))}"
            yield located.problem("extra", f"{card.pipeline} takes no {quoted(key)}", advice)
        elif (wanted := misfit(value, kinds.get(key))) is not None:
            yield located.problem("extra", f"{quoted(key)} cannot be {shown(value)}", wanted)


def _open(card: Card) -> list[str]:
    """The keywords of a call that `extra` may give."""
    return [name for name in card.parameters if name not in RESERVED and name not in _KEYWORDS]


def _carried(located: Located, resolved: Resolved) -> Iterator[Problem]:
    """A request must survive the way to the worker and into the manifest."""
    try:
        msgspec.msgpack.encode(resolved.said)
        msgspec.json.encode(resolved.said)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        yield located.problem(
            "", f"holds a value that cannot be passed on: {escaped(str(error))}", "use plain JSON values"
        )


def _origin(located: Located, field: str, written: str = "") -> str:
    """Where a value comes from if the request does not say it itself: only a flag is left."""
    said = written or getattr(located.request, field) is not None
    return "" if said else f" (from --{field.replace('_', '-')})"


def _nearest(values: str) -> str:
    return f"nearest {'are' if ' and ' in values else 'is'} {values}"
