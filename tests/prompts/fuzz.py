"""Random prompt lines from a seed: valid ones, near misses, and garbage."""

import json
import random
from collections.abc import Callable
from typing import Any

from omni_cli.prompts import FIELDS
from omni_cli.prompts.fields import ALIASES

NAMES = [*FIELDS, *ALIASES, "size", "promt", "Prompt", "", "\u202eid", "__proto__", "a" * 300]

HUGE_BYTES = 10_000_000
HUGE_EVERY = 5_000
"""One line in HUGE_EVERY has HUGE_BYTES."""

WORDS = [
    "a red circle", "", " ", "\0", "..", "../../etc/passwd", "CON", "-rf", "é", "日本", "\u202ex\u2066",
    "\ufeff", "\x1b[31m", "\r", "a\tb", "x" * 5000, "{}", "{id}", "%s", "\ud800", "💥" * 90, "NaN", "true",
    "64x64", "1e999", "png", "mp4",
]  # fmt: skip

NUMBERS: list[str] = [
    "0", "-1", "1", "9", "64", "16", "65", "1.5", "-0.0", "1e999", "-1e999", "1e-400", "NaN", "Infinity", "9" * 400,
    "0" * 50, str(2**63 - 1), str(2**63), str(2**64), "1e19", "0x10", "1_000", "٣", "true", "null", ".5", "1.", "+1",
]  # fmt: skip

TOKENS = [
    b"{", b"}", b"[", b"]", b'"', b"\\", b":", b",", b"\0", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80",
    b"\\u", b"\\ud800", b"\\u0000", b"\r", b"\t", b"\x1b[2J", b"\xe2\x80\xae", b"\xef\xbb\xbf", b"//", b"#", b"null",
    b'"prompt":', b'"id":"a",', b"'", b"\x1a",
]  # fmt: skip


def line(dice: random.Random, number: int) -> bytes:
    """Return line `number` of a file, without a line feed in it."""
    if dice.random() < 1 / HUGE_EVERY:
        return _huge(dice)
    maker = dice.choices([_valid, _any_members, _envelope, _deep, _noise], [4, 4, 2, 0.3, 1])[0]
    data = maker(dice, number)
    if dice.random() < 0.5:
        data = mutated(dice, data)
    return data.replace(b"\n", b"\\n")


def record(dice: random.Random, mark: bytes) -> bytes:
    """Return a record of a table of three columns, sometimes with one cell more or less."""
    cells = [
        _text(dice).encode("utf-8", "surrogatepass").replace(b"\n", b" ") for _ in range(dice.choice([3, 3, 3, 2, 4]))
    ]
    quoted = [b'"' + cell.replace(b'"', b'""') + b'"' if dice.random() < 0.4 else cell for cell in cells]
    data = mark.join(quoted)
    return mutated(dice, data).replace(b"\n", b" ") if dice.random() < 0.3 else data


def mutated(dice: random.Random, data: bytes) -> bytes:
    """Return `data` with some bytes changed, removed, repeated or cut off."""
    text = bytearray(data)
    for _ in range(dice.randint(1, 3)):
        place = dice.randrange(len(text) + 1)
        match dice.randrange(5):
            case 0:
                text[place : place + 1] = bytes([dice.randrange(256)])
            case 1:
                del text[place : place + dice.randint(1, 10)]
            case 2:
                text[place:place] = dice.choice(TOKENS) * dice.choice([1, 1, 1, 40])
            case 3:
                text[place:place] = text[place : place + dice.randint(1, 30)]
            case _:
                del text[place:]
    return bytes(text)


def _valid(dice: random.Random, number: int) -> bytes:
    row: dict[str, Any] = {"id": f"r{number}", "prompt": _text(dice)}
    for name, value in {"seed": number, "num_frames": 9, "height": 64, "fps": 8, "format": "mp4"}.items():
        if dice.random() < 0.4:
            row[name] = value
    return json.dumps(row, ensure_ascii=dice.random() < 0.5).encode("utf-8", "surrogatepass")


def _any_members(dice: random.Random, number: int) -> bytes:
    """Return an object of any names with any values."""
    members = [f"{json.dumps(dice.choice(NAMES))}: {_value(dice, 3)}" for _ in range(dice.randint(0, 6))]
    if dice.random() < 0.7:
        members.append('"prompt": "x"')
    return ("{" + ", ".join(members) + "}").encode("utf-8", "surrogatepass")


def _envelope(dice: random.Random, number: int) -> bytes:
    """Return an OpenAI batch row."""
    body = dice.choice([_valid, _any_members])(dice, number).decode("utf-8", "surrogatepass")
    outer = [f'"custom_id": {dice.choice([json.dumps(f"c{number}"), _value(dice, 1)])}', f'"body": {body}']
    outer += ['"method": "POST"', '"url": "/v1/images/generations"', f'"model": {_value(dice, 1)}']
    dice.shuffle(outer)
    return ("{" + ", ".join(outer[: dice.randint(2, 5)]) + "}").encode("utf-8", "surrogatepass")


def _deep(dice: random.Random, number: int) -> bytes:
    """Return a value nested up to far beyond the recursion limit, closed or not."""
    depth = dice.choice([5, 60, 200, 900, 1100, 20_000])
    opening, closing = dice.choice([("[", "]"), ('{"a":', "}")])
    inside = opening * depth + "1" + closing * (depth if dice.random() < 0.7 else depth // 2)
    return ('{"prompt": "x", ' + dice.choice(['"extra": {"a": ', '"image": ', '"bogus": ']) + inside + "}}").encode()


def _noise(dice: random.Random, number: int) -> bytes:
    return dice.choice(
        [b"", b" ", b"\t\r", b"null", b"[]", b'"x"', b"1", b"{}", b"{{}}", dice.randbytes(dice.randint(0, 60))]
    )


def _huge(dice: random.Random) -> bytes:
    """Return ten megabytes: one prompt, many members, many mistakes, or blanks."""
    makers: list[Callable[[], bytes]] = [
        lambda: b'{"prompt": "' + b"x" * HUGE_BYTES + b'"}',
        lambda: b'{"prompt": "' + "é".encode() * (HUGE_BYTES // 2),
        lambda: b'{"prompt": "x", "extra": {"a": [' + b"1," * (HUGE_BYTES // 2) + b"1]}}",
        lambda: b"{" + b'"bogus": 1, ' * (HUGE_BYTES // 12) + b'"prompt": "x"}',
        lambda: b'{"seed": ' + b"9" * HUGE_BYTES + b"}",
        lambda: b"\xff" * HUGE_BYTES,
        lambda: b" " * HUGE_BYTES,
    ]
    return dice.choice(makers)()


def _text(dice: random.Random) -> str:
    return "".join(dice.choice(WORDS) for _ in range(dice.randint(1, 2)))


def _value(dice: random.Random, depth: int) -> str:
    """Return a JSON value, or something like one."""
    kind = dice.randrange(4 if depth else 2)
    if kind == 0:
        return json.dumps(_text(dice), ensure_ascii=dice.random() < 0.5)
    if kind == 1:
        return dice.choice(NUMBERS)
    inner = [_value(dice, depth - 1) for _ in range(dice.randint(0, 3))]
    if kind == 2:
        return "[" + ", ".join(inner) + "]"
    return "{" + ", ".join(f"{json.dumps(dice.choice(NAMES))}: {value}" for value in inner) + "}"
