"""The fast path gives the requests of a full validation, never hides a mistake, and is taken."""

import io
import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omni_cli.errors import Diagnostic
from omni_cli.prompts import LocatedRequest, read
from omni_cli.prompts.fast_path import CellFastPath, JsonFastPath
from omni_cli.prompts.jsonl import parse
from omni_cli.prompts.reader import ReadOptions
from omni_cli.prompts.row import NO_DEFAULTS, Row
from omni_cli.request import GenerationRequest

QUICK = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])

texts = st.sampled_from(
    ["red", "a: b", "é", "", " ", "x" * 513, "\0", "\x1f", "\ud800", " pad ", "#x", "\\#x", "7", None]
)
members = st.lists(
    st.tuples(st.sampled_from(["id", "prompt", "negative_prompt"]), texts)
    | st.tuples(st.just("seed"), st.sampled_from([0, 7, -1, 2**63 - 1, 2**63, 2**64, 1.0, 1.5, True, "7", None]))
    | st.tuples(st.sampled_from(["height", "width"]), st.sampled_from([64, 64.0, 0, 20000, "64", None]))
    | st.tuples(st.sampled_from(["guidance_scale", "fps"]), st.sampled_from([3, 3.0, 0, -0.0, 1e400, None]))
    | st.tuples(st.just("format"), st.sampled_from(["png", "PNG", "bmp"]))
    | st.tuples(st.sampled_from(["n", "size", "extra", "image", "prompt "]), st.sampled_from([1, "8x8", {"a": 1}])),
    max_size=5,
)
json_lines = st.tuples(members, st.sampled_from([":", " :", ": "])).map(
    lambda row: "{" + ", ".join(f"{json.dumps(key)}{row[1]}{json.dumps(value)}" for key, value in row[0]) + "}"
)
cells = st.sampled_from(
    ["red", " red ", "é", "", " ", '"a, b"', 'a"b', "7", "07", "-1", "1.5", "64", "9" * 19, "\x1f", "\r"]
)
columns = st.permutations(["id", "prompt", "seed", "height", "size", "n", "negative_prompt", "bad", "image"])


def outcome(rows):
    """Requests and diagnostics without their lines."""
    return [
        (row.column, row.field, row.cause, row.remedy) if isinstance(row, Diagnostic) else getattr(row, "request", row)
        for row in rows
    ]


def read_all(content: str, kind: str) -> list[LocatedRequest | Diagnostic]:
    return list(
        read("-", binary=io.BytesIO(content.encode("utf-8", "surrogatepass")), options=ReadOptions(format=kind))
    )


@given(st.lists(json_lines, min_size=1, max_size=8))
@QUICK
def test_json_rows_come_out_as_from_a_full_validation(lines):
    checked = [Row("<stdin>", 1, 1, line.encode(), parse).validate(NO_DEFAULTS) for line in lines]
    full = [row for one in checked for row in (one if isinstance(one, list) else [one])]
    assert outcome(read_all("\n".join(lines), "jsonl")) == outcome(full)


@given(columns, st.integers(1, 4), st.lists(st.lists(cells, min_size=1, max_size=4), min_size=1, max_size=8))
@QUICK
def test_records_come_out_as_if_each_stood_alone(names, count, records):
    header = names[:count]
    for delimiter, kind in ((",", "csv"), ("\t", "tsv")):
        first = delimiter.join(header) + "\n"
        rows = [delimiter.join(record[:count]) for record in records]
        sound = [row for row in rows if row.count('"') % 2 == 0 and row.strip(f" \r{delimiter}")]
        head = outcome(read_all(first, kind))
        head = [] if head == outcome(read_all("", kind)) else head
        alone = [one for row in sound for one in outcome(read_all(first + row + "\n", kind))[len(head) :]]
        if sound:
            assert outcome(read_all(first + "\n".join(sound) + "\n", kind)) == [*head, *alone]


@given(st.lists(texts.filter(lambda text: text and text != "\0"), min_size=1, max_size=6))
@QUICK
def test_lines_of_text_come_out_as_prompts(lines):
    found = read_all("\n".join(lines), "txt")
    assert all(
        row.request == GenerationRequest(prompt=row.request.prompt) for row in found if isinstance(row, LocatedRequest)
    )
    prompts = [row.request.prompt for row in found if isinstance(row, LocatedRequest)]
    writable = [line.strip() for line in lines if line.strip() and line[0] != "#" and line != "\ud800"]
    assert prompts == [line.removeprefix("\\") for line in writable]


def test_a_valid_row_takes_the_fast_path_and_a_doubtful_one_does_not():
    fast_path = JsonFastPath()
    for row, wanted in (
        (b'{"id":"a","prompt":"b","seed":1,"height":64}', GenerationRequest(id="a", prompt="b", seed=1, height=64)),
        (b'{"prompt":"a: b","id":"\xc3\xa9"}', GenerationRequest(prompt="a: b", id="é")),
        (b'{"prompt":"a","prompt":"b"}', None),
        (b'{"prompt":"a","seed":null}', None),
        (b'{"prompt":" "}', None),
        (b'{"prompt":"a","id":"\\u0000"}', None),
        (b'{"prompt":"a","height":0}', None),
    ):
        assert fast_path.request(row) == wanted
    table = CellFastPath(("id", "prompt", "height"), ",")
    assert table.request(b"a,b,64") is None
    table.remember(b"a,b,64", GenerationRequest(id="a", prompt="b", height=64))
    assert table.request(b"c, d ,64") == GenerationRequest(id="c", prompt="d", height=64)
    assert table.request(b"c,d,65") is None


def test_a_seed_that_is_no_json_number_is_refused_after_a_valid_record():
    rows = read_all("prompt,seed\na,7\nb,07\nc,+8\nd,9\n", "csv")
    assert [isinstance(row, LocatedRequest) for row in rows] == [True, False, False, True]
