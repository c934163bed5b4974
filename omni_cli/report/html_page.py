"""The page of a report: one HTML file that loads nothing but the thumbnails beside it and the outputs it links to.

Its script and style are inline and allowed by their hashes (Content Security Policy, level 2), so that no text of a
row can run or load anything, even if it got into the document as markup. The data is JSON in a block that no browser
executes, with `<`, `>` and `&` escaped.
"""

import base64
import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from pathlib import Path

import msgspec
from msgspec import structs

import omni_cli
from omni_cli.errors import UsageError
from omni_cli.journal import manifest_folder
from omni_cli.report.output_pairs import OutputPair, compare_pixels, pair_outputs
from omni_cli.report.reported_outputs import (
    OutputGroup,
    ReportedFolder,
    ReportedOutput,
    group_outputs,
    read_folder,
)
from omni_cli.report.run_figures import RunFigures, run_figures
from omni_cli.report.thumbnails import THUMBNAIL_NAME, ThumbnailJob, make_thumbnails, remove_others
from omni_cli.storage.atomic import pending_file
from omni_cli.storage.disk_errors import describe_error
from omni_cli.text import encodable_value, quote

REPORT_FOLDER = "report"
PAGE_NAME = "index.html"
THUMBNAIL_FOLDER = "thumbs"

_REPORT_FILE = re.compile(rf"{REPORT_FOLDER}/(?:{re.escape(PAGE_NAME)}|{THUMBNAIL_FOLDER}/{THUMBNAIL_NAME.pattern})")

SCRIPT_PARTS = ("data", "elements", "media", "gallery", "output", "groups", "timeline", "compare", "views")
"""Files of the script in their order: each uses those before it as it is read, and any other once the page is there."""

_MARK = b"<!-- omni-gen report -->"
"""In the first bytes of a page, by which it is known as one that may be replaced."""

_HEAD_BYTES = 200

OnStage = Callable[[str, int, int], object]
"""Called with what is being made ("thumbnails", "comparisons"), how many are done, and how many there are."""


class FolderData(msgspec.Struct, kw_only=True):
    """What the page shows of one folder."""

    name: str
    outputs: list[ReportedOutput]
    models: list[str]
    runs: list[RunFigures]
    groups: list[OutputGroup]


class PageData(msgspec.Struct, kw_only=True):
    """The data block of a page. `pairs` is None for one folder; `reload` is in seconds, 0 for a page that stays."""

    made: str
    thumbs: str
    folders: list[FolderData]
    pairs: list[OutputPair] | None
    reload: float


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """A page on disk and the number of outputs, failures and damaged files that it shows of the first folder."""

    page: Path
    outputs: int
    failed: int
    damaged: int

    @property
    def summary(self) -> str:
        """Return the counts as a line for people."""
        parts = [f"{self.outputs:,} output{'' if self.outputs == 1 else 's'}"]
        parts += [f"{self.failed:,} failed"] if self.failed else []
        parts += [f"{self.damaged:,} missing or changed"] if self.damaged else []
        return f"report: {', '.join(parts)}"


def write_report(
    outputs: Path,
    other: Path | None = None,
    page_dir: Path | None = None,
    *,
    on_stage: OnStage = lambda what, done, total: None,
    reload: float = 0.0,
) -> WrittenReport:
    """Write the page of the folder `outputs`, beside `other` if given, and its thumbnails.

    `page_dir` is the page's folder, `outputs/report` by default. A page that has `reload` follows the next one: it
    loads itself again after so many seconds. Raises UsageError if there is no manifest, or nothing can be written.
    """
    roots = [manifest_folder(path) for path in (outputs, *([] if other is None else [other]))]
    target = roots[0] / REPORT_FOLDER if page_dir is None else page_dir
    page = target / PAGE_NAME
    try:
        _check_replaceable(page)
        folders = [read_folder(root, target) for root in roots]
        (target / THUMBNAIL_FOLDER).mkdir(parents=True, exist_ok=True)
        _add_thumbnails(folders, target / THUMBNAIL_FOLDER, on_stage)
        pairs = _pairs(folders, on_stage)
        data = PageData(
            made=datetime.now().astimezone().isoformat(timespec="seconds"),
            thumbs=THUMBNAIL_FOLDER,
            folders=[_folder_data(folder) for folder in folders],
            pairs=pairs,
            reload=reload,
        )
        _write(target, render_page(data))
        remove_others(target / THUMBNAIL_FOLDER, (output.thumb for folder in folders for output in folder.outputs))
    except OSError as error:
        raise UsageError(
            f"the report cannot be written to {quote(str(target), 200)}: {describe_error(error)};"
            " name another folder with -o"
        ) from error
    statuses = [output.status for output in folders[0].outputs]
    return WrittenReport(page, len(statuses), statuses.count("failed"), statuses.count("damaged"))


def default_page(outputs: Path) -> Path:
    """Return the path of the page of the folder `outputs`, where no other folder is named."""
    return outputs / REPORT_FOLDER / PAGE_NAME


def is_report_file(path: str) -> bool:
    """Return True if `path`, relative to an output folder, is that of a page or thumbnail that `write_report` makes."""
    return _REPORT_FILE.fullmatch(path) is not None


def render_page(data: PageData) -> str:
    """Return the HTML of a page."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # 60 ms, for this command alone
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("omni_cli.report", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, script = _asset("page.css"), _script()
    return environment.get_template("page.html.j2").render(
        title=" and ".join(folder.name for folder in data.folders),
        version=omni_cli.__version__,
        made=data.made,
        style=Markup(style),
        style_hash=_csp_hash(style),
        script=Markup(script),
        script_hash=_csp_hash(script),
        data=Markup(escaped_json(data)),
        comparing=data.pairs is not None,
    )


def _script() -> str:
    """Return the script of the page: its parts in one function, so that none of their names is a global one."""
    parts = "\n".join(_asset(f"page/{name}.js") for name in SCRIPT_PARTS)
    return f'"use strict";\n(() => {{\n{parts}}})();\n'


def _asset(name: str) -> str:
    return (files("omni_cli.report") / "assets" / name).read_text(encoding="utf-8")


def escaped_json(data: PageData) -> str:
    """Return `data` as JSON that ends no element, wherever it is put in an HTML document."""
    try:
        encoded = msgspec.json.encode(data).decode()
    except UnicodeEncodeError:  # a lone surrogate in a path that is not UTF-8
        encoded = msgspec.json.encode(encodable_value(msgspec.to_builtins(data))).decode()
    return encoded.translate(_ESCAPES)


_ESCAPES = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


def _csp_hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _folder_data(folder: ReportedFolder) -> FolderData:
    return FolderData(
        name=folder.name,
        # The row has the prompt already: a page of 10,000 outputs is a third smaller without a second one.
        outputs=[structs.replace(output, prompt="") if output.row else output for output in folder.outputs],
        models=folder.models,
        runs=run_figures(folder.rows),
        groups=group_outputs(folder.outputs),
    )


def _add_thumbnails(folders: Sequence[ReportedFolder], target: Path, on_stage: OnStage) -> None:
    """Make the missing thumbnails of all outputs whose files are there, and name them in the outputs."""
    outputs = [output for folder in folders for output in folder.outputs]
    jobs = [
        ThumbnailJob(folder.root / file.path, file) if file is not None and output.url else None
        for folder in folders
        for output, file in zip(folder.outputs, folder.files, strict=True)
    ]
    names = make_thumbnails(target, jobs, lambda done, total: on_stage("thumbnails", done, total))
    for output, name in zip(outputs, names, strict=True):
        output.thumb = name


def _pairs(folders: Sequence[ReportedFolder], on_stage: OnStage) -> list[OutputPair] | None:
    if len(folders) == 1:
        return None
    first, second = folders
    pairs = pair_outputs(first.outputs, second.outputs)
    compare_pixels(pairs, first, second, lambda done, total: on_stage("comparisons", done, total))
    return pairs


def _check_replaceable(page: Path) -> None:
    """Raise UsageError if `page` is there and was not written by this module."""
    try:
        with page.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except FileNotFoundError:
        return
    if _MARK not in head:
        raise UsageError(
            f"{quote(str(page), 200)} is not a report of omni-gen and is kept; name another folder with -o"
        )


def _write(target: Path, html: str) -> None:
    with pending_file(target, PAGE_NAME) as pending:
        with pending.open() as file:
            file.write(html.encode())
        pending.publish()
