"""The page on disk: one file whose data can do nothing but be read, and thumbnails beside it."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omni_cli.errors import UsageError
from omni_cli.report import html_page, write_report
from omni_cli.report.html_page import FolderData, PageData, render_page
from omni_cli.report.reported_outputs import ReportedOutput
from omni_cli.request import ErrorInfo, GenerationRequest
from tests.report.conftest import MakeFolder, OutputFolder

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!-- --><img src=x onerror=alert(1)>",
    "{{ 7 * 7 }}{% raw %}",
    "\u2028\u2029\0\x1b[31m\u202e",
    "&lt;b&gt;\\u003c",
]


class Document(HTMLParser):
    """Collects the elements of a page, their attributes, and the text of scripts and styles."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {"script": [], "style": [], "h1": []}
        self._open = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._open = tag if tag != "bdi" else self._open

    def handle_data(self, data: str) -> None:
        if self._open in self.texts:
            self.texts[self._open].append(data)

    def handle_endtag(self, tag: str) -> None:
        self._open = "" if tag != "bdi" else self._open

    @property
    def data(self) -> Any:
        return json.loads(self.texts["script"][0])


def page(text: str) -> PageData:
    output = ReportedOutput(id=text, status="failed", prompt=text, row=json.dumps({"prompt": text}), fault=text)
    folder = FolderData(name=text, outputs=[output], models=[text], runs=[], groups=[])
    return PageData(made="2026-01-01", thumbs="thumbs", folders=[folder], pairs=None, reload=0)


def check_that_data_stays_data(text: str) -> None:
    document, plain = Document(render_page(page(text))), Document(render_page(page("plain")))
    assert [tag for tag, _ in document.elements] == [tag for tag, _ in plain.elements]
    assert document.texts["style"] == plain.texts["style"]
    assert document.texts["script"][1:] == plain.texts["script"][1:]
    (output,) = document.data["folders"][0]["outputs"]
    assert output["id"] == output.get("fault", "") == text.encode("utf-8", "replace").decode()


@pytest.mark.parametrize("text", [*HOSTILE, "\ud800"])
def test_hostile_text_stays_data(text: str) -> None:
    check_that_data_stays_data(text)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(st.sampled_from("<>&/!-\"'\\script{}%\u2028\x00 "), max_size=30))
def test_any_text_stays_data(text: str) -> None:
    check_that_data_stays_data(text)


def test_nothing_runs_or_loads_but_the_script_and_style_of_the_page() -> None:
    document = Document(render_page(page("x")))
    (policy,) = [attrs["content"] for tag, attrs in document.elements if "Content-Security-Policy" in attrs.values()]
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    for name, text in (("script-src", document.texts["script"][1]), ("style-src", document.texts["style"][0])):
        assert rules[name] == f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert not {tag for tag, attrs in document.elements if {"src", "srcset", "style"} & attrs.keys()}
    assert not {attrs["href"] for _, attrs in document.elements if "href" in attrs} - {"#main", "data:,"}
    assert not [name for _, attrs in document.elements for name in attrs if name.startswith("on")]


def test_the_script_puts_no_text_into_the_document_as_markup() -> None:
    script = Document(render_page(page("x"))).texts["script"][1]
    assert not re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", script)


def test_the_page_has_every_part_of_the_script() -> None:
    parts = Path(html_page.__file__).parent / "assets" / "page"
    assert {path.stem for path in parts.iterdir()} == set(html_page.SCRIPT_PARTS)


def test_a_report_names_what_it_shows(folder: OutputFolder) -> None:
    folder.done("a", request=GenerationRequest(id="a", prompt=HOSTILE[0]))
    folder.done("gone")
    (folder.root / "gone.png").unlink()
    folder.add("bad", "failed", error=ErrorInfo(kind="forward_failed", message=HOSTILE[1]))
    written = write_report(folder.write())
    assert written.page == folder.root / "report" / "index.html"
    assert written.summary == "report: 3 outputs, 1 failed, 1 missing or changed"
    data = Document(written.page.read_text(encoding="utf-8")).data
    (shown,) = data["folders"]
    done = shown["outputs"][0]
    assert (written.page.parent / done["url"]).samefile(folder.root / "a.png")
    assert (written.page.parent / data["thumbs"] / done["thumb"]).is_file()
    assert json.loads(done["row"])["prompt"] == HOSTILE[0]
    assert [group["kind"] for group in shown["groups"]] == ["failed", "damaged"]
    assert shown["runs"][0]["forwards"] == 3


def test_two_folders_are_one_page_wherever_it_is_written(make_folder: MakeFolder, tmp_path: Path) -> None:
    first, second = make_folder("deep/one"), make_folder("zwei ü")
    first.done("a")
    second.done("a", seed=2)
    written = write_report(first.write(), second.write() / "manifest.jsonl", tmp_path / "elsewhere")
    data = Document(written.page.read_text(encoding="utf-8")).data
    assert [folder["name"] for folder in data["folders"]] == ["one", "zwei ü"]
    assert data["pairs"][0]["levels"] > 0
    assert not (first.root / "report").exists()


def test_a_report_is_written_again_and_a_page_of_others_is_kept(folder: OutputFolder) -> None:
    folder.done("a")
    page = write_report(folder.write()).page
    folder.done("b")
    assert write_report(folder.write()).outputs == 2
    page.write_text("<!DOCTYPE html><p>mine")
    with pytest.raises(UsageError, match="is not a report of omni-gen"):
        write_report(folder.root)
    assert page.read_text() == "<!DOCTYPE html><p>mine"


def test_thumbnails_of_outputs_that_are_gone_are_removed(folder: OutputFolder) -> None:
    folder.done("a", seed=1)
    folder.done("b", seed=2)
    thumbs = write_report(folder.write()).page.parent / "thumbs"
    (thumbs / "mine.jpg").touch()
    folder.rows.pop()
    write_report(folder.write())
    assert [path.name == "mine.jpg" for path in sorted(thumbs.iterdir(), key=lambda path: len(path.name))] == [
        True,
        False,
    ]


def test_a_folder_that_cannot_be_written_is_named(folder: OutputFolder, tmp_path: Path) -> None:
    folder.done("a")
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"cannot be written to .*file/report.*name another folder with -o"):
        write_report(folder.write(), page_dir=tmp_path / "file" / "report")
