"""Flags that other tools read behind a prompt, as fields of the request.

a red circle --w 64 --d 42 --n blur --s 20 --l 7            kohya's sd-scripts, musubi-tuner and what follows them
--prompt "a red circle" --negative_prompt blur --steps 4    AUTOMATIC1111's script "Prompts from file or textbox"
"a red circle" -n2 -H64 -W64 -S1234 -s 4                    InvokeAI 2

The names of kohya's flags count in any case, as there. Its `--l` is the scale of classifier-free guidance and `--g`
that of a distilled model; diffusers calls either `guidance_scale`, and beside `--g`, `--l` is `true_cfg_scale`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from omni_cli.errors import DiagnosticError
from omni_cli.prompts.fields import NESTED, NUMBERS, SIZE, field_of
from omni_cli.prompts.foreign_names import plain_name
from omni_cli.prompts.objects import validate_fields
from omni_cli.prompts.scan import number
from omni_cli.request import GenerationRequest
from omni_cli.text import did_you_mean, quote


class PromptFlag(NamedTuple):
    """A flag as it is written, with its dashes; `offset` is that of its value in the text."""

    name: str
    value: str
    offset: int


_KOHYA: Mapping[str, str] = {
    "n": "negative_prompt",
    "w": "width",
    "h": "height",
    "d": "seed",
    "s": "num_inference_steps",
    "l": "guidance_scale",
    "g": "guidance_scale",
    "t": "strength",
    "f": "num_frames",
    "fr": "fps",
    "i": "image",
    "ei": "last_image",
}

_INVOKE: Mapping[str, str] = {
    "n": "num_outputs",
    "H": "height",
    "W": "width",
    "S": "seed",
    "s": "num_inference_steps",
    "C": "guidance_scale",
    "f": "strength",
    "I": "image",
}

_LONG: Mapping[str, str] = {"n_iter": "num_outputs", "batch_size": "num_outputs", "denoising_strength": "strength"}

_WITHOUT_EFFECT = frozenset({"prompt_for_display", "outpath_samples", "outpath_grids", "do_not_save_grid"})

_ADVICE: Mapping[str, str] = {
    **dict.fromkeys(("ss", "sampler_name", "sampler_index", "sampler", "A"), "it is a setting of the run: --scheduler"),
    **dict.fromkeys(("fs", "flow_shift"), "it is a setting of the run: --flow-shift"),
    **dict.fromkeys(("sd_model",), "name the model with the field model, or --model"),
    **dict.fromkeys(("am",), "give the weight with the adapter: <lora:NAME:0.8>"),
    **dict.fromkeys(("styles",), "write the words of the style into the prompt"),
    **dict.fromkeys(("ar", "aspect"), "give --width and --height"),
}


def read_flags(text: str) -> tuple[str, dict[str, Any], dict[str, int]]:
    """Return the prompt of `text`, the fields that its flags give, and the offset in `text` of each field's value.

    Raises DiagnosticError, whose offset is in `text`, for a flag or a value that cannot be used.
    """
    prompt, flags = _split(text)
    values: dict[str, Any] = {}
    places: dict[str, int] = {}
    short_names = {flag.name.lower() for flag in flags}
    for flag in flags:
        field = _field(flag)
        if field is None:
            continue
        if flag.name.lower() == "--l" and "--g" in short_names:
            field = "true_cfg_scale"
        if field in values or (field == "prompt" and prompt):
            raise DiagnosticError(f"{flag.name}: {field} is given twice", "keep one", offset=flag.offset)
        if field == "seed" and flag.value == "-1":  # a random one there; here, one of the request's own
            continue
        for name, value in _checked(flag, field).items():
            values[name], places[name] = value, flag.offset
    places.setdefault("prompt", 0)
    return values.pop("prompt", prompt), values, places


def _split(text: str) -> tuple[str, Sequence[PromptFlag]]:
    """Return what stands before the flags of `text`, without quotes around all of it, and the flags."""
    first = _FLAG.search(text)
    if first is not None:
        head, flags = text[: first.start()], list(_long_flags(text, first))
    elif tail := _invoke_tail(text):
        head = text[: tail[0].start()]
        flags = [PromptFlag(f"-{match['name']}", match["value"], match.start("value")) for match in tail]
    else:
        return text.strip(), ()
    return _unquoted(head.strip()), flags


def _invoke_tail(text: str) -> list[re.Match[str]]:
    """Return InvokeAI's flags at the end of `text`, behind which nothing else stands."""
    tail: list[re.Match[str]] = []
    for match in _INVOKE_FLAG.finditer(text):
        if tail and tail[-1].end() != match.start():
            tail.clear()
        tail.append(match)
    return tail if tail and not text[tail[-1].end() :].strip() else []


def _long_flags(text: str, match: re.Match[str] | None) -> Iterator[PromptFlag]:
    """Yield the flag that `match` begins, and those behind it; a value in quotes may hold what looks like a flag."""
    while match is not None:
        start, name = match.end(), f"--{match['name']}"
        if quoted := _QUOTED_VALUE.match(text, start):
            match = _FLAG.search(text, quoted.end())
            yield PromptFlag(name, _unquoted(quoted.group()), start)
        else:
            match = _FLAG.search(text, start - 1)
            yield PromptFlag(name, text[start : match.start() if match else None].strip(), start)


def _unquoted(text: str) -> str:
    """Return `text` without the quotes around it; as it is if there are none."""
    if _QUOTED.fullmatch(text) is None:
        return text
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text[0] == '"' else text[1:-1]


def _field(flag: PromptFlag) -> str | None:
    """Return the field that `flag` gives, None for one without effect. Raises DiagnosticError for an unknown one."""
    name = plain_name(flag.name.lstrip("-"))
    if not flag.name.startswith("--"):
        field = _INVOKE.get(flag.name[1:])
    else:
        field = _KOHYA.get(name) or _LONG.get(name) or field_of(name)
    if name in _WITHOUT_EFFECT:
        return None
    if field is None or (field in NESTED and field != "image"):
        known = (*_KOHYA, *_LONG, "prompt", "negative_prompt", "seed", "steps", "cfg_scale", "width", "height")
        otherwise = f"known: --{', --'.join(known)}; --prompt-syntax plain renders it as words"
        advice = _ADVICE.get(flag.name.lstrip("-")) or _ADVICE.get(name) or did_you_mean(name, known, otherwise)
        raise DiagnosticError(f"unknown flag {quote(flag.name)}", advice, offset=flag.offset)
    return field


def _checked(flag: PromptFlag, field: str) -> dict[str, Any]:
    """Return the fields that the value of `flag` gives. Raises DiagnosticError for a value that breaks their rules."""
    value: Any = number(flag.value) if field in NUMBERS else None
    checked = validate_fields({field: flag.value if value is None else value})
    if not isinstance(checked, GenerationRequest):
        raise DiagnosticError(f"{flag.name}: {checked[0].cause}", checked[0].remedy, offset=flag.offset)
    fields = ("width", "height") if field == SIZE else (field,)
    return {name: given for name in fields if (given := getattr(checked, name)) is not None}


_NUMBER = r"-?[0-9]+(?:\.[0-9]*)?"
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*+"' + r"|'[^']*+'", re.DOTALL)
_QUOTED_VALUE = re.compile(rf"(?:{_QUOTED.pattern})(?=\s|$)", re.DOTALL)
_FLAG = re.compile(r"(?:^|(?<=\s))--(?P<name>[A-Za-z][\w-]*+)(?:[ \t=]+|(?=\s|$))")
_INVOKE_FLAG = re.compile(rf"(?<!\s)\s++-(?P<name>[nHWSsCf](?=\s*+{_NUMBER}(?!\S))|[IA](?=\s))\s*+(?P<value>\S++)")
