"""What a page shows of a folder: one entry per output, whatever has become of its files."""

import shutil
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from omni_cli.errors import UsageError
from omni_cli.journal import read_rows
from omni_cli.prompts.prompt_source import PromptSource
from omni_cli.report.reported_outputs import ReportedOutput, group_outputs, prompt_row, read_folder
from omni_cli.request import ErrorInfo, GenerationRequest
from tests.factories import result
from tests.report.conftest import OutputFolder

RECORDED = Path(__file__).parent.parent / "api" / "outputs_0_1_0" / "outputs"
"""What version 0.1.0 left."""


def read(folder: OutputFolder) -> list[ReportedOutput]:
    return read_folder(folder.write(), folder.root / "report").outputs


def test_each_file_of_a_request_is_an_output_with_its_seed(folder: OutputFolder) -> None:
    folder.done("a")
    folder.done("b", "b-0.png", "deep/b 1%.png", seed=5)
    outputs = read(folder)
    assert [(output.id, output.seed, output.url) for output in outputs] == [
        ("a", "1", "../a.png"),
        ("b-0", "5", "../b-0.png"),
        ("b-1", "6", "../deep/b%201%25.png"),
    ]
    assert {output.status for output in outputs} == {"done"}
    assert outputs[0].spans == (2.0, 1.0, 3.0, 0.125, 3.125, 0.25, 3.375, 0.125)


def test_outputs_are_in_the_order_of_the_prompt_file(folder: OutputFolder) -> None:
    for index in (2, 0, 1):
        folder.done(f"r{index}", index=index)
    assert [output.id for output in read(folder)] == ["r0", "r1", "r2"]


@pytest.mark.parametrize(
    ("name", "frames", "kind"),
    [
        ("a.png", 1, "picture"),
        ("a.gif", 3, "animation"),
        ("a.webp", 3, "animation"),
        ("a.webm", 3, "clip"),
        ("folder of frames", 3, "frames"),
        ("a.wav", 1, "sound"),
        ("a.npy", 1, "data"),
        ("a.npz", 3, "data"),
    ],
)
def test_a_file_is_of_a_kind_that_the_page_can_show(folder: OutputFolder, name: str, frames: int, kind: str) -> None:
    folder.done("a", name, frames=frames)
    (output,) = read(folder)
    assert (output.kind, output.status) == (kind, "done")


def test_files_that_are_missing_or_changed_are_told_and_not_linked(folder: OutputFolder) -> None:
    folder.done("gone")
    folder.done("cut")
    folder.done("frames", "frames", frames=3)
    (folder.root / "gone.png").unlink()
    (folder.root / "cut.png").write_bytes(b"x")
    (folder.root / "frames" / "000001.png").unlink()
    outputs = read(folder)
    assert [(output.status, output.url) for output in outputs] == [("damaged", "")] * 3
    assert outputs[0].fault == "file is missing"
    assert outputs[1].fault.startswith("file has 1 bytes, not ")


@pytest.mark.parametrize("path", ["../secret.png", "/etc/passwd", "a/../../secret.png", "a\0b.png"])
def test_a_path_that_leads_out_of_the_folder_is_never_followed(folder: OutputFolder, path: str, tmp_path: Path) -> None:
    row = folder.done("a")
    shutil.copy(folder.root / "a.png", tmp_path / "secret.png")
    folder.rows = [structs.replace(row, files=(structs.replace(row.files[0], path=path),))]
    (output,) = read(folder)
    assert (output.status, output.url) == ("damaged", "")
    assert output.fault.endswith("leads out of the folder")


def test_requests_without_files_are_told_with_their_reason(folder: OutputFolder) -> None:
    folder.add("bad", "failed", error=ErrorInfo(kind="forward_failed", message="no luck"), starts=None)
    folder.add("stopped", "cancelled")
    bad, stopped = read(folder)
    assert (bad.status, bad.fault, bad.run, bad.spans) == ("failed", "forward_failed: no luck", -1, ())
    assert (stopped.status, stopped.fault) == ("cancelled", "")


@settings(max_examples=40, deadline=None)
@given(prompt=st.text(), negative=st.text(), seed=st.integers(0, 2**63 - 1), name=st.text("aü猫\u202e-", min_size=1))
def test_the_copied_row_is_the_request_and_hides_nothing(prompt: str, negative: str, seed: int, name: str) -> None:
    request = GenerationRequest(id=name, prompt=prompt, negative_prompt=negative, num_outputs=2, guidance_scale=3.5)
    try:
        prompt.encode(), negative.encode()
    except UnicodeEncodeError:
        assert prompt_row(result(name, request=request), None) == ""
        return
    row = prompt_row(result(name, request=request, seeds=(7, seed)), 1)
    assert row.isprintable()
    copied = msgspec.json.decode(row.encode(), type=GenerationRequest, strict=False)
    assert copied == structs.replace(request, id=f"{name}-1", seed=seed, num_outputs=None)


def test_a_copied_row_is_a_row_of_a_prompt_file(folder: OutputFolder, tmp_path: Path) -> None:
    folder.done("a", "a-0.png", "a-1.png", request=GenerationRequest(id="a", prompt="x\n\u202ey", output="z"))
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("\n".join(output.row for output in read(folder)))
    with PromptSource(str(prompts), GenerationRequest()) as source:
        requests = [getattr(row, "request", row) for row in source.rows()]
    assert [(request.id, request.prompt, request.seed, request.output) for request in requests] == [
        ("a-0", "x\n\u202ey", 1, None),
        ("a-1", "x\n\u202ey", 2, None),
    ]


def test_rows_that_are_too_long_to_copy_keep_their_prompt(folder: OutputFolder) -> None:
    folder.done("a", request=GenerationRequest(id="a", prompt="word " * 10_000))
    (output,) = read(folder)
    assert output.row == ""
    assert output.prompt.startswith("word ")


def test_what_version_0_1_0_left_is_shown(tmp_path: Path) -> None:
    outputs = read_folder(RECORDED, tmp_path).outputs
    rows = list(read_rows(RECORDED / "manifest.jsonl"))
    assert len(outputs) == sum(max(1, len(row.files)) for row in rows)
    assert {output.run for output in outputs} == {-1}
    assert any(output.status == "done" and output.forward > 0 for output in outputs)


def test_files_that_are_missing_are_one_group_however_many(folder: OutputFolder) -> None:
    for name in ("a", "b", "c"):
        folder.done(name)
        (folder.root / f"{name}.png").unlink()
    assert [(group.text, group.outputs) for group in group_outputs(read(folder))] == [("file is missing", [0, 1, 2])]


def test_failures_and_notes_are_grouped_by_what_they_have_in_common() -> None:
    outputs = [
        ReportedOutput(id="a", status="done", notes=("prompt is cut: 77 of 90 tokens", "blackened")),
        ReportedOutput(id="b", status="failed", fault='forward_failed: no "x" at step 3'),
        ReportedOutput(id="c", status="done", notes=("prompt is cut: 77 of 212 tokens",) * 2),
        ReportedOutput(id="d", status="failed", fault='forward_failed: no "y" at step 14'),
        ReportedOutput(id="e", status="damaged", fault="e.png is missing"),
    ]
    groups = [(group.kind, group.text, group.outputs) for group in group_outputs(outputs)]
    assert groups == [
        ("failed", 'forward_failed: no "x" at step 3', [1, 3]),
        ("damaged", "e.png is missing", [4]),
        ("note", "prompt is cut: 77 of 90 tokens", [0, 2]),
        ("note", "blackened", [0]),
    ]


def test_a_folder_without_a_manifest_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no manifest\.jsonl"):
        read_folder(tmp_path, tmp_path)
