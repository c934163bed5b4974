"""The server of a page: what it gives, to whom, and what it does not."""

import http.client
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from omni_cli.errors import UsageError
from omni_cli.report import write_report
from omni_cli.report.page_server import requested_part, serving
from tests.report.conftest import MakeFolder, OutputFolder


class Site:
    """A served folder with a page, some outputs, and files that are none."""

    def __init__(self, folder: OutputFolder, address: str) -> None:
        self.folder = folder
        parts = urlsplit(address)
        assert parts.hostname == "127.0.0.1"
        self.port = parts.port
        self.token = parts.path.split("/")[1]
        self.page = parts.path

    def get(self, path: str, method: str = "GET", **headers: str) -> tuple[int, bytes, http.client.HTTPMessage]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path, headers=headers)
            response = connection.getresponse()
            return response.status, response.read(), response.headers
        finally:
            connection.close()

    def status(self, relative: str) -> int:
        return self.get(f"/{self.token}/{relative}")[0]


@pytest.fixture
def site(make_folder: MakeFolder) -> Iterator[Site]:
    folder = make_folder("out")
    folder.done("a")
    folder.done("ü 1%", "deep/ü 1%.png", seed=2)
    folder.done("frames", "frames", frames=2)
    page = write_report(folder.write()).page
    (folder.root / "secret.png").write_bytes(b"no row names it")
    with serving(page.parent, [folder.root], 0) as address:
        yield Site(folder, address)


def test_the_page_its_thumbnails_and_the_outputs_are_served(site: Site) -> None:
    status, body, headers = site.get(site.page)
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert body == (site.folder.root / "report" / "index.html").read_bytes()
    thumb = next((site.folder.root / "report" / "thumbs").iterdir())
    assert site.get(f"/{site.token}/report/thumbs/{thumb.name}")[1] == thumb.read_bytes()
    for name, path in {"a.png": "a.png", "deep/ü 1%.png": "deep/%C3%BC%201%25.png"}.items():
        status, body, headers = site.get(f"/{site.token}/{path}")
        assert (status, headers["Content-Type"], headers["X-Content-Type-Options"]) == (200, "image/png", "nosniff")
        assert body == (site.folder.root / name).read_bytes()
    assert site.status("frames/000001.png") == 200


OTHERS = [
    *("", "secret.png", "manifest.jsonl", "frames", "frames/other.txt", "../secret.png", "%2e%2e/secret.png"),
    *("deep/..%2fsecret.png", "/etc/passwd", "%2fetc%2fpasswd", "report/", "report/thumbs/", "a.png%00"),
    "report/thumbs/..%2f..%2fsecret.png",
]


def test_nothing_else_is_served(site: Site) -> None:
    assert {relative: site.status(relative) for relative in OTHERS} == dict.fromkeys(OTHERS, 404)


def test_only_the_printed_address_of_this_machine_is_answered(site: Site) -> None:
    assert site.get(site.page.replace(site.token, "x" * len(site.token)))[0] == 404
    assert site.get("/report/index.html")[0] == 404
    assert site.get("/")[0] == 404
    assert site.get(site.page, Host="evil.example")[0] == 404
    assert site.get(site.page, Host=f"localhost:{site.port}")[0] == 200
    assert site.get(site.page, method="POST")[0] == 501


def test_a_foreign_document_is_a_download(site: Site) -> None:
    site.folder.done("page", "page.npy")
    html = site.folder.root / "evil.html"
    html.write_text("<script>alert(1)</script>")
    row = site.folder.rows[-1]
    from msgspec import structs

    site.folder.rows[-1] = structs.replace(row, files=(structs.replace(row.files[0], path="evil.html"),))
    site.folder.write()
    status, _, headers = site.get(f"/{site.token}/evil.html")
    assert (status, headers["Content-Type"]) == (200, "application/octet-stream")


def test_rows_that_a_run_adds_are_served(site: Site) -> None:
    site.folder.done("late")
    assert site.status("late.png") == 404
    site.folder.write()
    assert site.status("late.png") == 200


def test_a_player_gets_the_part_that_it_asks_for(site: Site) -> None:
    whole = (site.folder.root / "a.png").read_bytes()
    status, body, headers = site.get(f"/{site.token}/a.png", Range="bytes=10-19")
    assert (status, body) == (206, whole[10:20])
    assert headers["Content-Range"] == f"bytes 10-19/{len(whole)}"
    status, body, headers = site.get(f"/{site.token}/a.png", method="HEAD")
    assert (status, body, headers["Content-Length"]) == (200, b"", str(len(whole)))


@pytest.mark.parametrize(
    ("header", "part"),
    [
        ("bytes=0-", (0, 100)),
        ("bytes=90-200", (90, 100)),
        ("bytes=-30", (70, 100)),
        ("bytes=-300", (0, 100)),
        ("bytes=5-5", (5, 6)),
        ("bytes=100-", None),
        ("bytes=9-3", None),
        ("bytes=-", None),
        ("bytes=-0", None),
        ("bytes=1-2,5-6", None),
        ("lines=1-2", None),
        ("", None),
    ],
)
def test_a_range_is_within_the_file_or_none(header: str, part: tuple[int, int] | None) -> None:
    assert requested_part(header, 100) == part


def test_a_port_that_is_in_use_is_named(folder: OutputFolder) -> None:
    page = write_report(folder.write()).page
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=rf"--port {port}: cannot be listened on: "):
            serving(page.parent, [folder.root], port).__enter__()


def test_a_page_elsewhere_reaches_the_outputs_of_both_folders(make_folder: MakeFolder, tmp_path: Path) -> None:
    first, second = make_folder("a/one"), make_folder("b/two")
    for folder in (first, second):
        folder.done("x")
        folder.write()
    page = write_report(first.root, second.root, tmp_path / "page").page
    with serving(page.parent, [first.root, second.root / "manifest.jsonl"], 0) as address:
        site = Site(first, address)
        assert site.page.endswith("/page/index.html")
        assert site.status("b/two/x.png") == 200
