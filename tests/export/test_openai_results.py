"""The result file of OpenAI's batch API: a line per request of the list, in its order."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from omni_cli.api.run_file import run_file
from omni_cli.api.session import Session
from omni_cli.config import EngineConfig, OutputConfig, ResultsFormat, RunConfig
from omni_cli.errors import StorageUnavailable
from omni_cli.events import AnyEvent, Note
from omni_cli.export.openai_results import write_results
from omni_cli.prompts.prompt_source import PromptSource
from omni_cli.request import GenerationRequest, OutputFile
from omni_cli.storage.shards import Shard
from omni_cli.trace import Timeline
from tests.factories import result

ENGINE = EngineConfig(executor="inline", runner="omni_cli.worker.null:NullRunner")


def batch_row(name: str, url: str = "/v1/images/generations", **body: Any) -> dict[str, Any]:
    return {"custom_id": name, "method": "POST", "url": url, "body": {"prompt": "x", **body}}


def render(
    folder: Path, rows: list[dict[str, Any]], results: ResultsFormat = "openai", shard: Shard | None = None
) -> tuple[int, list[str]]:
    """Render the rows; return the exit code and the notes of the run."""
    events: list[AnyEvent] = []
    prompts = folder / "batch.jsonl"
    prompts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    output = OutputConfig(output_dir=str(folder / "out"), results=results)
    config = RunConfig(engine=ENGINE, output=output, shard=shard)
    with (
        PromptSource(str(prompts), GenerationRequest()) as source,
        Session(config, events.append, Timeline(), base=source.base) as session,
    ):
        code = run_file(session, source)
    return code, [event.text for event in events if isinstance(event, Note)]


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "out" / "results.jsonl").read_text().splitlines()]


def test_a_batch_comes_back_as_its_result_file_in_the_order_of_the_list(tmp_path: Path) -> None:
    rows = [batch_row("b", n=2, output_format="webp", output_compression=80), batch_row("a", "/v1/videos", seconds="1")]
    code, notes = render(tmp_path, rows)
    assert code == 0
    assert notes[-1] == f"{tmp_path / 'out' / 'results.jsonl'}: 2 responses, 0 errors"
    picture, clip = lines(tmp_path)
    assert [picture["custom_id"], clip["custom_id"]] == ["b", "a"]
    assert picture["error"] is None
    assert picture["response"]["status_code"] == 200
    assert picture["response"]["body"]["data"] == [{"url": "b-0.webp"}, {"url": "b-1.webp"}]
    assert picture["response"]["body"]["output_format"] == "webp"
    assert all((tmp_path / "out" / one["url"]).is_file() for one in picture["response"]["body"]["data"])
    body = clip["response"]["body"]
    assert (body["object"], body["status"], body["seconds"], body["size"]) == ("video", "completed", "1", "64x64")
    assert body["data"] == [{"url": "a.mp4"}]


def test_a_run_with_nothing_to_render_writes_the_same_file_and_only_what_its_list_has(tmp_path: Path) -> None:
    rows = [batch_row("a"), batch_row("b")]
    render(tmp_path, rows)
    first = lines(tmp_path)
    render(tmp_path, rows)
    assert lines(tmp_path) == first
    render(tmp_path, [batch_row("c"), batch_row("b")])
    assert [line["custom_id"] for line in lines(tmp_path)] == ["c", "b"]


def test_each_shard_has_a_result_file_of_its_own(tmp_path: Path) -> None:
    rows = [batch_row(f"r{number}") for number in range(6)]
    for number in range(2):
        render(tmp_path, rows, shard=(number, 2))
    parts = [(tmp_path / "out" / f"results.{number}-of-2.jsonl").read_text().splitlines() for number in range(2)]
    assert sorted(json.loads(line)["custom_id"] for part in parts for line in part) == [f"r{n}" for n in range(6)]
    assert all(parts)


def test_files_are_in_the_lines_as_base64_if_asked_for(tmp_path: Path) -> None:
    render(tmp_path, [batch_row("a", n=2)], "openai-base64")
    data = lines(tmp_path)[0]["response"]["body"]["data"]
    for number, one in enumerate(data):
        assert base64.b64decode(one["b64_json"]) == (tmp_path / "out" / f"a-{number}.png").read_bytes()


def test_a_result_file_that_cannot_be_written_ends_the_run_with_every_output_in_place(tmp_path: Path) -> None:
    (tmp_path / "out" / "results.jsonl").mkdir(parents=True)
    with pytest.raises(StorageUnavailable, match=r"results\.jsonl.*all outputs are in place"):
        render(tmp_path, [batch_row("a")])
    assert (tmp_path / "out" / "a.png").is_file()
    (tmp_path / "out" / "results.jsonl").rmdir()
    assert render(tmp_path, [batch_row("a")])[0] == 0
    assert [line["custom_id"] for line in lines(tmp_path)] == ["a"]


def test_failed_requests_are_errors_and_cancelled_ones_have_no_line(tmp_path: Path) -> None:
    file = OutputFile(path="a.mp4", sha256="", bytes=1, width=64, height=32, frames=97, fps=24.0)
    rows = [result("a", files=(file,)), result("b\ud800", "failed"), result("c", "cancelled")]
    assert write_results(tmp_path / "results.jsonl", (replace(row) for row in rows), inline=False) == (1, 1)
    done, failed = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert done["response"]["body"]["seconds"] == "4.042"
    assert failed["response"] is None
    assert failed["error"] == {"code": "forward_failed", "message": "no"}
    assert failed["id"].startswith("batch_req_")
    assert len({done["id"], failed["id"]}) == 2
