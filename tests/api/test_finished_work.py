"""Finished work over any sequence of runs into one folder: no file is lost or replaced, no output rendered twice."""

import contextlib
import copy
import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omni_cli.api.recorded import read_samples
from omni_cli.api.rerender import check_recorded_file
from omni_cli.api.run_file import run_file
from omni_cli.api.session import Session
from omni_cli.config import EngineConfig, OutputConfig, RunConfig
from omni_cli.errors import UsageError
from omni_cli.events import AnyEvent, ForwardStarted, RequestFinished
from omni_cli.journal import read_rows
from omni_cli.media import Media
from omni_cli.planner.version_1 import FingerprinterV1
from omni_cli.prompts.prompt_source import PromptSource
from omni_cli.request import EXACT_INTEGERS, GenerationRequest, PlannedRequest, Result, to_json
from omni_cli.text import caseless
from omni_cli.trace import Timeline
from omni_cli.worker.null import NullRunner

RECORDED = Path(__file__).parent / "outputs_0_1_0"
"""What version 0.1.0 left after `run prompts.jsonl` with the null runner."""

SMALL = GenerationRequest(height=16, width=16, num_frames=1)
Row = dict[str, Any]


class Folder:
    """An output folder and a prompt file beside it, for runs in this process with a null runner."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.out = root / "outputs"
        self.rendered: list[tuple[str, int]] = []
        """(id, number) of every output that the last run rendered."""

    def run(
        self, *rows: Row | str, defaults: dict[str, Any] | None = None, seed: int = 0, **output: Any
    ) -> list[Result]:
        """Run a list; return the rows that the run wrote. Raises UsageError for one that is refused."""
        prompts = self.root / "prompts.jsonl"
        prompts.write_text("".join(json.dumps({"prompt": row} if isinstance(row, str) else row) + "\n" for row in rows))
        config = RunConfig(
            engine=EngineConfig(executor="inline", runner="omni_cli.worker.null:NullRunner"),
            output=OutputConfig(output_dir=str(self.out), disk_check=False, **output),
            defaults=msgspec.structs.replace(SMALL, **(defaults or {})),
            seed=seed,
        )
        events: list[AnyEvent] = []
        self.rendered = []
        with (
            count_outputs(self.rendered),
            PromptSource(str(prompts), config.defaults) as source,
            Session(config, events.append, Timeline(), base=source.base) as session,
        ):
            try:
                run_file(session, source)
            except UsageError:
                assert not [event for event in events if isinstance(event, ForwardStarted)]
                raise
        return [event.result for event in events if isinstance(event, RequestFinished)]

    def files(self) -> dict[str, str]:
        """Return the hashes of all files but the manifest."""
        return {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in self.out.iterdir()
            if path.is_file() and path.suffix not in (".jsonl", ".lock")
        }

    def rows(self) -> dict[str, Result]:
        manifest = self.out / "manifest.jsonl"
        return {row.id: row for row in read_rows(manifest)} if manifest.exists() else {}


@contextmanager
def count_outputs(rendered: list[tuple[str, int]]) -> Iterator[None]:
    """Add (id, number) to `rendered` for every output that the null runner renders."""
    render = NullRunner._media

    def media(self: NullRunner, planned: PlannedRequest) -> Media:
        rendered.extend((planned.id, planned.number(position)) for position in range(len(planned.seeds)))
        return render(self, planned)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NullRunner, "_media", media)
        yield


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@contextmanager
def unchanged(folder: Folder) -> Iterator[None]:
    """Check that all files that are there stay as they are, and that every row stays done."""
    files, rows = folder.files(), folder.rows()
    yield
    assert files.items() <= folder.files().items()
    assert {name for name, row in rows.items() if row.status == "done"} <= {
        name for name, row in folder.rows().items() if row.status == "done"
    }


def test_two_lists_without_ids_share_a_folder_and_their_equal_rows(folder: Folder) -> None:
    assert len(folder.run("a red circle", "a green square")) == 2
    with unchanged(folder):
        (new,) = folder.run("a white triangle", "a red circle")
    assert new.request.prompt == "a white triangle"


@pytest.mark.parametrize(
    "edit", [lambda rows: ["new", *rows], lambda rows: rows[::-1], lambda rows: rows[2:] + rows[:1]]
)
def test_place_in_the_list_does_not_matter(folder: Folder, edit: Any) -> None:
    rows = ["a", "b", "c", "d"]
    folder.run(*rows)
    with unchanged(folder):
        assert [result.request.prompt for result in folder.run(*edit(rows))] == [
            row for row in edit(rows) if row not in rows
        ]


def test_equal_rows_are_numbered_and_have_seeds_of_their_own(folder: Folder) -> None:
    first, second = folder.run("same", "same")
    assert second.id == f"{first.id}-2"
    assert first.seeds != second.seeds
    (third,) = folder.run("same", "other", "same", "same")[1:]
    assert third.id == f"{first.id}-3"


def test_derived_seeds_have_32_bits(folder: Folder) -> None:
    assert all(0 <= seed < 2**32 for row in folder.run({"prompt": "x", "num_outputs": 20}) for seed in row.seeds)


def test_inputs_are_compared_by_content_not_by_spelling(folder: Folder) -> None:
    shutil.copy(RECORDED / "input.png", folder.root / "a.png")
    folder.run({"prompt": "x", "image": "a.png"})
    shutil.copy(RECORDED / "input.png", folder.root / "b.png")
    (folder.root / "c.png").write_bytes((RECORDED / "outputs/00003.png").read_bytes())
    with unchanged(folder):
        assert folder.run(
            {"prompt": "x", "image": "./b.png"}, {"prompt": "x", "image_path": str(folder.root / "a.png")}
        )[0].id.endswith("-2")
        assert len(folder.run({"prompt": "x", "image": "c.png"})) == 1


def test_more_outputs_render_only_those_that_are_missing_and_fewer_none(folder: Folder) -> None:
    (two,) = folder.run("x", defaults={"num_outputs": 2})
    with unchanged(folder):
        (four,) = folder.run("x", defaults={"num_outputs": 4})
        assert four.files[:2] == two.files
        assert four.seeds[:2] == two.seeds
        assert len(four.files) == four.request.num_outputs == len(folder.files()) == 4
        assert folder.run("x") == []
    assert len(folder.rows()[two.id].files) == 4
    (folder.out / four.files[2].path).unlink()
    assert folder.run("x", defaults={"num_outputs": 2}) == []
    (mended,) = folder.run("x", defaults={"num_outputs": 3})
    assert mended.files == four.files
    assert mended.request.num_outputs == 4


def test_one_output_becomes_two_and_keeps_its_name(folder: Folder) -> None:
    (one,) = folder.run({"prompt": "x", "id": "r"})
    with unchanged(folder):
        (two,) = folder.run({"prompt": "x", "id": "r", "num_outputs": 2})
    assert [file.path for file in two.files] == ["r.png", "r-1.png"]
    assert two.files[0] == one.files[0]


@pytest.mark.parametrize(
    ("row", "flags", "change"),
    [
        ({"prompt": "y"}, {}, 'prompt: "x" → "y"'),
        ({"seed": 4}, {}, "seed: 3 → 4"),
        ({}, {"defaults": {"guidance_scale": 2.5}}, "guidance_scale: none → 2.5"),
        ({"format": "jpeg"}, {}, 'format: "png" → "jpeg"'),
        ({"height": 32}, {}, "height: 16 → 32"),
    ],
)
def test_change_of_a_finished_request_is_refused_with_its_fields(
    folder: Folder, row: Row, flags: dict[str, Any], change: str
) -> None:
    base = {"prompt": "x", "seed": 3, "id": "r"}
    folder.run(base, {"prompt": "z"}, seed=1)
    with unchanged(folder):
        with pytest.raises(UsageError, match="1 request is finished") as refused:
            folder.run({**base, **row}, "new", seed=1, **flags)
        assert change in str(refused.value)
        assert "--keep-old" in str(refused.value)
        assert "--replace-changed" in str(refused.value)
        (new,) = folder.run({**base, **row}, "new", seed=1, changed="keep", **flags)
        assert new.request.prompt == "new"
    (again,) = folder.run({**base, **row}, seed=1, changed="replace", **flags)
    assert again.id == "r"
    assert folder.run({**base, **row}, seed=1, **flags) == []


def test_flag_that_changes_many_requests_is_one_line(folder: Folder) -> None:
    rows = [f"p{n}" for n in range(30)]
    folder.run(*rows)
    with pytest.raises(UsageError, match="30 requests are finished") as refused:
        folder.run(*rows, defaults={"num_inference_steps": 7})
    assert len(str(refused.value).splitlines()) == 3
    assert "and 27 more: num_inference_steps: 1 → 7" in str(refused.value)


def test_new_value_in_one_row_without_an_id_is_a_new_request(folder: Folder) -> None:
    folder.run("a", "b")
    with unchanged(folder):
        (new,) = folder.run("a", {"prompt": "b", "guidance_scale": 3})
    assert new.request.guidance_scale == 3


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"id": "Cat"}, {"id": "cat"}),
        ({"id": "\u00e9t\u00e9"}, {"id": "e\u0301te\u0301"}),
        ({"id": "stra\u00dfe"}, {"id": "STRASSE"}),
        ({"id": "a", "output": "x/Same.png"}, {"id": "b", "output": "X/same.png"}),
        ({"id": "a/b"}, {"id": "a_b"}),
    ],
)
def test_name_of_another_finished_file_is_refused_however_it_is_spelled(
    folder: Folder, first: Row, second: Row
) -> None:
    (done,) = folder.run({"prompt": "x", **first})
    target = folder.out / done.files[0].path
    before = target.read_bytes()
    with pytest.raises(UsageError, match="is the finished output of") as refused:
        folder.run({"prompt": "y", **second})
    assert json.dumps(done.id, ensure_ascii=False) in str(refused.value)
    assert target.read_bytes() == before
    assert folder.run({"prompt": "y", **second}, changed="keep") == []
    assert len(folder.run({"prompt": "y", **second}, overwrite=True)) == 1


def test_name_template_that_repeats_a_finished_name_is_refused(folder: Folder) -> None:
    folder.run("a", "b", name_template="{index:05d}")
    with unchanged(folder):
        with pytest.raises(UsageError, match="2 requests would replace finished files") as refused:
            folder.run("c", "d", name_template="{index:05d}")
        assert '"00000.png" is the finished output of "a-' in str(refused.value)
        assert folder.run("a", "b") == []


def test_file_that_no_row_knows_is_kept_beside_the_output(folder: Folder) -> None:
    folder.out.mkdir()
    (folder.out / "r.png").write_bytes(b"mine")
    (row,) = folder.run({"prompt": "x", "id": "r"})
    assert (folder.out / "r.png").read_bytes() == b"mine"
    assert row.files[0].path.startswith("r~")
    assert row.notes == (f"r.png was there already, and no row knows it: this is {row.files[0].path}",)
    assert folder.run({"prompt": "x", "id": "r"}) == []


def test_file_of_a_run_that_was_killed_before_its_row_is_rendered_again_in_place(folder: Folder) -> None:
    folder.run("x")
    files = folder.files()
    (folder.out / "manifest.jsonl").unlink()
    assert len(folder.run("x")) == 1
    assert folder.files() == files


def test_failure_does_not_replace_a_finished_row(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    (done,) = folder.run({"prompt": "x", "id": "r"})
    with unchanged(folder):

        def fail(*_: Any) -> None:
            raise ValueError("no")

        monkeypatch.setattr(NullRunner, "execute_stepwise", fail)
        for row, options in (
            ({"num_outputs": 2}, {}),
            ({"prompt": "y"}, {"changed": "replace"}),
            ({}, {"overwrite": True}),
        ):
            (failed,) = folder.run({"prompt": "x", "id": "r", **row}, **options)
            assert failed.status == "failed"
    assert folder.rows()["r"] == done


@pytest.fixture
def recorded(folder: Folder) -> Folder:
    """The folder as version 0.1.0 left it, moved to another place."""
    shutil.copytree(RECORDED, folder.root, dirs_exist_ok=True)
    return folder


OLD_ROWS: list[Row] = [json.loads(line) for line in (RECORDED / "prompts.jsonl").read_text().splitlines()]


def test_what_version_0_1_0_finished_is_done(recorded: Folder) -> None:
    manifest = (recorded.out / "manifest.jsonl").read_bytes()
    with unchanged(recorded):
        assert recorded.run(*OLD_ROWS) == []
        (new,) = recorded.run("new", *OLD_ROWS[::-1])
        assert new.request.prompt == "new"
    assert (recorded.out / "manifest.jsonl").read_bytes().startswith(manifest)


def test_what_version_0_1_0_finished_grows_and_is_mended_with_its_seeds(recorded: Folder) -> None:
    old = recorded.rows()
    (recorded.out / "00001.png").unlink()
    files = recorded.files()
    rows = [row | {"num_outputs": 3} if row["prompt"] == "a green square" else row for row in OLD_ROWS]
    mended, grown = sorted(recorded.run(*rows), key=lambda row: len(row.files))
    assert [file.path for file in mended.files] == ["00001.png"]
    assert mended.seeds == old["00001"].seeds
    assert grown.files[:2] == old["00002"].files
    assert grown.seeds[:2] == old["00002"].seeds
    assert files.items() <= recorded.files().items()
    assert "00001" not in recorded.rows()
    assert "00002" not in recorded.rows()
    assert recorded.run(*rows) == []


def test_another_base_seed_makes_what_version_0_1_0_finished_another_request(recorded: Folder) -> None:
    with unchanged(recorded):
        assert len(recorded.run(*OLD_ROWS[:3], seed=1)) == 3
        with pytest.raises(UsageError, match='"named": prompt: "a yellow circle" → "other"'):
            recorded.run({**OLD_ROWS[4], "prompt": "other"})


@pytest.mark.parametrize(
    ("recorded_model", "is_same"),
    [
        ({"id": "./models/demo/", "revision": "abc"}, True),
        ({"id": "./models/demo/", "revision": "other"}, False),
        ({"id": "./models/demo/", "revision": "abc", "dtype": "bfloat16"}, False),
    ],
)
def test_model_of_version_0_1_0_may_have_been_spelled_otherwise(
    recorded: Folder, monkeypatch: pytest.MonkeyPatch, recorded_model: Row, is_same: bool
) -> None:
    identify, fingerprint = NullRunner.identify, FingerprinterV1.fingerprint

    def with_revision(self: NullRunner, *arguments: Any) -> Any:
        loaded = identify(self, *arguments)
        return msgspec.structs.replace(loaded, info=msgspec.structs.replace(loaded.info, revision="abc"))

    monkeypatch.setattr(NullRunner, "identify", with_revision)
    expected: dict[tuple[int, ...], str] = {}

    def as_recorded(self: FingerprinterV1, request: GenerationRequest, seeds: Any, model_id: str | None = None) -> str:
        """Keep what 0.1.0 would have hashed for the recorded spelling of the model."""
        self_then = copy.copy(self)
        self_then._info = msgspec.structs.replace(self._info, **recorded_model)
        expected.setdefault(tuple(seeds), fingerprint(self_then, request, seeds))
        return fingerprint(self, request, seeds, model_id)

    monkeypatch.setattr(FingerprinterV1, "fingerprint", as_recorded)
    with contextlib.suppress(UsageError):
        recorded.run(*OLD_ROWS)
    path = recorded.out / "manifest.jsonl"
    shutil.copy(RECORDED / "outputs" / "manifest.jsonl", path)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        row["model"] |= recorded_model
        row["fingerprint"] = expected.get(tuple(row["seeds"]), row["fingerprint"])
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    if is_same:
        with unchanged(recorded):
            assert recorded.run(*OLD_ROWS) == []
    else:
        with pytest.raises(UsageError) as refused:
            recorded.run(*OLD_ROWS)
        assert ("model id: " in str(refused.value)) == (recorded_model["revision"] != "abc")
        assert ("model dtype: " in str(refused.value)) == ("dtype" in recorded_model)


def rounded(text: str) -> str:
    """Rewrite JSON as a program that holds every number as a 64-bit float does."""
    return json.dumps(json.loads(text, parse_int=lambda digits: int(float(digits))))


@pytest.mark.parametrize("rewrite", [rounded, lambda text: json.dumps(json.loads(text, parse_int=float))])
@pytest.mark.parametrize("seed", [None, 2**53 - 1, 2**53 + 1, 2**63 - 1])
def test_manifest_survives_a_reader_of_floats(folder: Folder, seed: int | None, rewrite: Any) -> None:
    row = {"prompt": "x", "num_outputs": 3, "seed": seed, "guidance_scale": 0.1}
    folder.run(row)
    path, before = folder.out / "manifest.jsonl", folder.rows()
    path.write_text("".join(rewrite(line) + "\n" for line in path.read_text().splitlines()))
    assert folder.rows() == before
    as_written = str(seed) if seed is not None and seed > EXACT_INTEGERS else seed
    assert folder.run({**row, "seed": as_written}) == []
    assert [check_recorded_file(sample) for sample in read_samples(folder.out)] == [None] * 3


def test_what_the_user_keeps_about_a_request_changes_nothing(folder: Folder) -> None:
    for row in ({"prompt": "x"}, {"id": "a", "prompt": "x"}):
        assert len(folder.run(row)) == 1
        assert folder.run({**row, "meta": {"category": "animals"}}) == []
        assert folder.run({**row, "meta": {"category": "plants"}}) == []


names = st.sampled_from(["a", "b", "c", "C", "d"])
steps = st.one_of(
    st.tuples(st.just("insert"), st.integers(0, 5), st.fixed_dictionaries({"prompt": names})),
    st.tuples(st.just("insert"), st.integers(0, 5), st.fixed_dictionaries({"prompt": names, "id": names})),
    st.tuples(
        st.just("insert"), st.integers(0, 5), st.fixed_dictionaries({"prompt": names, "seed": st.just(2**63 - 1)})
    ),
    st.tuples(st.just("delete"), st.integers(0, 5)),
    st.tuples(st.just("sort"), st.booleans()),
    st.tuples(
        st.just("edit"), st.integers(0, 5), st.sampled_from([{"num_outputs": 3}, {"prompt": "e"}, {"output": "b.png"}])
    ),
    st.tuples(st.just("run"), st.integers(1, 3), st.sampled_from(["refuse", "keep"]), st.integers(0, 3)),
)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(st.lists(steps, max_size=14))
def test_no_sequence_of_runs_loses_a_finished_file_or_renders_an_output_twice(history: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as root:
        folder, rows = Folder(Path(root)), list[Row]()
        finished: dict[str, str] = {}
        folder.out.mkdir()
        for step in [*history, ("run", 2, "keep", 0)]:
            match step:
                case "insert", at, row:
                    rows.insert(at, row)
                case "delete", at:
                    del rows[at : at + 1]
                case "sort", reverse:
                    rows.sort(key=json.dumps, reverse=reverse)
                case "edit", at, change:
                    rows[at : at + 1] = [row | change for row in rows[at : at + 1]]
                case "run", outputs, changed, lost:
                    before = folder.rows()
                    done = {(row.id, n) for row in before.values() for n in range(len(row.files))}
                    results: list[Result] = []
                    with suppress(UsageError):
                        results = folder.run(*rows, defaults={"num_outputs": outputs}, changed=changed)
                    assert not done & set(folder.rendered), "rendered twice"
                    assert len(set(folder.rendered)) == len(folder.rendered), "rendered twice"
                    for result in results:
                        assert result.status == "done"
                        if result.id in before:
                            assert set(before[result.id].files) <= set(result.files)
                    kill(folder, before, {result.id for result in results[:lost]})
                    finished |= {file.path: file.sha256 for row in folder.rows().values() for file in row.files}
                    files = {file.path for row in folder.rows().values() for file in row.files}
                    assert finished.items() <= folder.files().items(), "a finished file was lost or replaced"
                    assert files == set(finished), "a finished file has no row"
                    assert len({caseless(name) for name in files}) == len(files)


def kill(folder: Folder, before: dict[str, Result], ids: set[str]) -> None:
    """Leave the manifest as a run does that is killed after it placed the files of `ids` and before it wrote a row."""
    if ids:
        rows = {name: before.get(name) if name in ids else row for name, row in folder.rows().items()}
        lines = [to_json(row) + b"\n" for row in rows.values() if row is not None]
        (folder.out / "manifest.jsonl").write_bytes(b"".join(lines))
