"""Any file is validated whole: each line is a request that can be rendered or a mistake with its place."""

import gzip
import random
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omni_cli.config import OutputConfig, RunConfig
from omni_cli.errors import Diagnostic, PromptFileError, UsageError
from omni_cli.planner import Planner
from omni_cli.planner.check_file import check_file, local_lookup
from omni_cli.planner.identity import with_ids
from omni_cli.planner.models import ModelFacts, Models
from omni_cli.planner.resolve import SourcedRequest
from omni_cli.prompts.prompt_source import PromptSource
from omni_cli.request import GenerationRequest, ModelInfo
from omni_cli.transport.messages import ExecuteModel, decode_to_worker, encode
from tests.prompts.fuzz import line, mutated, record

SMALL = 3_000
LONG = 100_000
PER_FILE = 250
BLANK = b" \t\r\n"
INFO = ModelInfo(id="demo", revision="r", pipeline="WanPipeline", dtype="float32")

CONFIG = RunConfig(output=OutputConfig(output_dir="/nonexistent/out"))


def validate_file(path: Path) -> dict[int, str]:
    """Check every row of `path` and return "request" or "problem" for each line that is not blank."""
    card = local_lookup(CONFIG)(CONFIG.model).card
    assert card is not None
    models = Models(CONFIG.model, path.parent, lambda model: ModelFacts(card, INFO, {}))
    planner = Planner(CONFIG, models, path.parent)
    fates: dict[int, str] = {}
    with PromptSource(str(path), GenerationRequest()) as source:
        for row in with_ids(source.rows(), path.parent):
            problems = [row] if isinstance(row, Diagnostic) else planner.check(row)
            for problem in problems:
                check_problem(problem)
                fates[problem.line] = "problem"
            if not isinstance(row, Diagnostic) and not problems:
                check_plan(planner, row)
                fates.setdefault(row.line, "request")
    return fates


def check_problem(problem: Diagnostic) -> None:
    """Check that the problem has a place and prints."""
    assert str(problem).isprintable(), repr(problem)
    assert problem.line >= 1
    assert problem.column >= 1
    assert 0 < len(str(problem)) < 2000


def check_plan(planner: Planner, row: SourcedRequest) -> None:
    """Check that the plan of `row` survives the way to a worker, and that its files stay in the folder."""
    planned = planner.plan(row)
    call = ExecuteModel(rpc_id=1, batch_id="b", requests=(planned,))
    assert decode_to_worker(encode(call)) == call
    for name in planned.files:
        path = PurePosixPath(name)
        assert not path.is_absolute()
        assert ".." not in path.parts
        assert all(0 < len(part.encode()) <= 255 for part in path.parts)
        assert "\0" not in name


def fuzzed_files(dice: random.Random, count: int, folder: Path) -> Iterator[tuple[Path, Sequence[bytes]]]:
    """Yield `count` lines as files of all formats, one after the other under the same few names."""
    for number, start in enumerate(range(0, count, PER_FILE)):
        part = range(start, min(count, start + PER_FILE))
        kind = ("jsonl", "jsonl", "json", "csv", "tsv", "txt")[number % 6]
        path = folder / f"fuzz.{kind}"
        match kind:
            case "csv" | "tsv":
                mark = b"," if kind == "csv" else b"\t"
                lines = [mark.join([b"prompt", b"id", b"seed"]), *(record(dice, mark) for _ in part)]
            case _:
                lines = [line(dice, n) for n in part]
        joined = b"[" + b",\n".join(lines) + b"]" if kind == "json" else b"\n".join(lines)
        path.write_bytes(joined)
        yield path, lines


def test_every_line_is_a_request_or_an_error_with_its_place(
    pytestconfig: pytest.Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: int | None = pytestconfig.getoption("--chaos")
    seed: int = pytestconfig.getoption("--chaos-seed")
    print(f"--chaos-seed {seed}")  # noqa: T201 - shown with a failure
    count = LONG if asked else SMALL
    fates = {"request": 0, "problem": 0}
    for path, lines in fuzzed_files(random.Random(seed), count, tmp_path):
        lines_read = validate_file(path)
        if path.suffix == ".jsonl":
            filled = {number for number, raw in enumerate(lines, 1) if raw.strip(BLANK)}
            assert lines_read.keys() >= filled, f"{path}: lines without a fate: {sorted(filled - lines_read.keys())}"
        for fate in lines_read.values():
            fates[fate] += 1
    assert min(fates.values()) > count // 20, fates
    if asked:
        with capsys.disabled():
            print(f"\nfuzz seed {seed}: {count} lines, {fates}")  # noqa: T201


def test_a_compressed_file_that_was_cut_off_is_an_error_and_never_a_traceback(tmp_path: Path) -> None:
    dice = random.Random(1)
    whole = gzip.compress(b'{"prompt": "x"}\n' * 400, mtime=0)
    for name in ("p.jsonl.gz", "p.jsonl", "p.csv", "p.txt", "p.json"):
        for data in (whole[: len(whole) // 2], whole[:5], mutated(dice, whole), b""):
            path = tmp_path / name
            path.write_bytes(data)
            with PromptSource(str(path), GenerationRequest()) as source, pytest.raises(UsageError):
                check_file(CONFIG, source)


parts = st.sampled_from(
    [b"{", b"}", b'"prompt":"x"', b",", b'"id":', b"1", b'"\\ud800"', b"\n", b"\xff", b"[", b"]", b"1e999", b"\0"]
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.lists(parts, max_size=25).map(b"".join) | st.binary(max_size=80),
    kind=st.sampled_from(["jsonl", "json", "csv"]),
)
def test_a_whole_file_is_counted_or_refused(content: bytes, kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"p.{kind}"
    path.write_bytes(content)
    with PromptSource(str(path), GenerationRequest()) as source:
        try:
            assert check_file(CONFIG, source) >= 1
        except PromptFileError as error:
            refused = error
        else:
            return
    assert refused.problems
    assert str(refused).replace("\n", "").isprintable()
