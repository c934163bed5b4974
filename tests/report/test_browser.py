"""The page in a real browser: what a person sees, clicks, types and hears read aloud. Skipped without a Chromium."""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from omni_cli.report import write_report
from omni_cli.report.html_page import FolderData, PageData, render_page
from omni_cli.report.page_server import serving
from omni_cli.report.reported_outputs import ReportedOutput
from omni_cli.request import ErrorInfo, GenerationRequest
from tests.report.conftest import OutputFolder

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser")
PROGRAMS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")

HOSTILE = "</script><img src=x onerror=\"window.hit=1\"><script>window.hit=1</script> {{ 7 * 7 }} & 'q'"
LONG_SEED = 2**63 - 1

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip("no Chromium is installed (Debian: apt-get install chromium)")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the pages of one folder, and of it and another one."""
    root = tmp_path_factory.mktemp("browser")
    first, second = OutputFolder(root / "first"), OutputFolder(root / "second <b>")
    for folder, seed in ((first, 1), (second, 2)):
        folder.done("circle", seed=1, request=GenerationRequest(id="circle", prompt="a red circle"))
        folder.done("clip", "clip.webm", frames=8, request=GenerationRequest(id="clip", prompt="a cat"))
        folder.done("frames", "frames", frames=3)
        folder.done("猫-عربي", "hostile.png", seed=seed, request=GenerationRequest(prompt=HOSTILE), notes=(HOSTILE,))
        folder.done("array", "array.npz", frames=2, seeds=(LONG_SEED,))
        folder.done("gone")
        (folder.root / "gone.png").unlink()
    for number in range(3):
        first.add(f"bad{number}", "failed", error=ErrorInfo(kind="forward_failed", message=f"{HOSTILE} {number}"))
    first.write()
    second.write()
    return {
        "one": write_report(first.root).page,
        "two": write_report(first.root, second.root, root / "both").page,
    }


@pytest.fixture
def open_page(browser: Any) -> Iterator[Open]:
    """Return a function that opens a page; nothing may be logged or thrown there, or refused by its policy."""
    faults: list[str] = []
    contexts: list[Any] = []

    def open_(page_file: Path | str, address: str = "", **options: Any) -> Any:
        context = browser.new_context(permissions=["clipboard-read", "clipboard-write"], **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda message: message.type == "error" and faults.append(message.text))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto((page_file if isinstance(page_file, str) else page_file.as_uri()) + address)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert faults == []


def wait_until(page: Any, expression: str) -> None:
    """Wait until the JavaScript `expression` is true; playwright's own wait is an eval, which the page forbids."""
    deadline = time.monotonic() + 10
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, expression
        page.wait_for_timeout(20)


def texts(page: Any, selector: str) -> list[str]:
    found: list[str] = page.locator(selector).all_inner_texts()
    return found


def test_the_gallery_shows_every_output_and_hostile_text_as_text(pages: dict[str, Path], open_page: Open) -> None:
    page = open_page(pages["one"])
    assert texts(page, "#cards .name") == [
        "circle",
        "clip",
        "frames",
        "猫-عربي",
        "array",
        "gone",
        "bad0",
        "bad1",
        "bad2",
    ]
    assert texts(page, "#cards .prompt")[3] == HOSTILE
    assert texts(page, "#totals li")[:3] == ["5 done", "3 failed", "1 missing or changed"]
    shown = page.evaluate(
        "[...document.querySelectorAll('#cards img')].map(async i => (await i.decode(), i.naturalWidth))"
    )
    assert len(shown) == 5
    assert page.evaluate("window.hit") is None


def test_search_status_and_order_choose_outputs_and_survive_a_reload(pages: dict[str, Path], open_page: Open) -> None:
    page = open_page(pages["one"])
    page.keyboard.press("/")
    page.keyboard.type("CIRCLE red")
    assert texts(page, "#cards .name") == ["circle"]
    page.fill("#search", "")
    page.select_option("#status", "failed")
    page.select_option("#order", "-")
    assert texts(page, "#cards .name") == ["bad2", "bad1", "bad0"]
    page.reload()
    assert texts(page, "#cards .name") == ["bad2", "bad1", "bad0"]
    page.select_option("#status", "notes")
    assert texts(page, "#cards .name") == ["猫-عربي"]
    page.fill("#search", "nothing like it")
    assert page.is_visible("#no-cards")


def test_clips_play_while_they_are_pointed_at_or_focused(pages: dict[str, Path], open_page: Open) -> None:
    page = open_page(pages["one"])
    cards = page.locator("#cards button")
    cards.nth(1).hover()
    wait_until(page, "document.querySelector('#cards video')?.currentTime > 0")
    cards.nth(2).focus()
    wait_until(page, "document.querySelectorAll('#cards li')[2].querySelector('img').src.endsWith('frames/000002.png')")
    cards.nth(0).hover()
    cards.nth(0).focus()
    wait_until(page, "!document.querySelector('#cards video')")
    assert page.locator("#cards img").count() == 5


def test_a_served_page_is_the_same(pages: dict[str, Path], open_page: Open) -> None:
    with serving(pages["one"].parent, [pages["one"].parent.parent], 0) as address:
        page = open_page(address)
        page.locator("#cards button").nth(1).hover()
        wait_until(page, "document.querySelector('#cards video')?.currentTime > 0")
        wait_until(page, "[...document.querySelectorAll('#cards img')].every(i => i.naturalWidth > 0)")


def test_an_output_is_opened_copied_and_closed_with_the_keyboard(pages: dict[str, Path], open_page: Open) -> None:
    page = open_page(pages["one"])
    page.locator("#cards button").nth(4).focus()
    page.keyboard.press("Enter")
    assert page.inner_text("#detail-title") == "array"
    assert str(LONG_SEED) in page.inner_text("#detail-facts table")
    page.keyboard.press("ArrowLeft")
    assert page.inner_text("#detail-title") == "猫-عربي"
    page.click("text=Copy row")
    wait_until(page, "document.getElementById('announce').textContent === 'row copied'")
    copied = json.loads(page.evaluate("navigator.clipboard.readText()"))
    assert (copied["prompt"], copied["seed"]) == (HOSTILE, 1)
    assert page.evaluate("document.querySelector('#detail-media img').naturalWidth") == 32
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.textContent").endswith("array")
    assert page.evaluate("window.hit") is None


def test_failures_are_grouped_and_lead_to_their_outputs(pages: dict[str, Path], open_page: Open) -> None:
    page = open_page(pages["one"], "#view=groups")
    groups = texts(page, "#group-list summary b")
    assert groups == ["3 failures", "1 file", "1 note"]
    page.click("text=Show 3 outputs in the gallery")
    assert texts(page, "#cards .name") == ["bad0", "bad1", "bad2"]
    page.click("#group-filter button")
    assert page.locator("#cards li").count() == 9


def test_the_timeline_draws_what_ran_beside_what(pages: dict[str, Path], open_page: Open) -> None:
    page = open_page(pages["one"], "#view=runs")
    colours = """() => {
        const canvas = document.getElementById("timeline"), pen = canvas.getContext("2d");
        const count = (name) => {
            const swatch = document.querySelector(`.legend i.${name}`);
            const colour = getComputedStyle(swatch).color.match(/\\d+/g).map(Number);
            const pixels = pen.getImageData(0, 0, canvas.width, canvas.height).data;
            let found = 0;
            for (let at = 0; at < pixels.length; at += 4) found += colour.every((level, c) => pixels[at + c] === level);
            return found;
        };
        return ["forward", "d2h", "encode", "write"].map(count);
    }"""
    whole = page.evaluate(colours)
    assert whole[0] > whole[2] > whole[1] > 0  # forwards of 1 s, encodes of 0.25 s, copies of 0.125 s
    page.fill("#zoom", "100")
    assert page.evaluate(colours) != whole
    assert "9 forwards on 1 worker in 9.50 s" in page.inner_text("#timeline-text")
    assert texts(page, "#run-figures tbody td")[:2] == ["6", "3"]


def test_two_folders_are_compared_output_by_output(pages: dict[str, Path], open_page: Open) -> None:
    page = open_page(pages["two"])
    summary = page.inner_text("#compare-summary")
    assert summary.startswith("6 pairs: 4 bit-exact, 0 within one level, 1 different.")
    assert "Only in first: 3, only in second <b>: 0." in summary
    page.select_option("#pair-order", "mean")
    assert texts(page, "#pairs .name")[0] == "猫-عربي"
    page.locator("#pairs button").nth(0).click()
    page.fill("#border", "25")
    assert (
        page.evaluate("document.querySelector('#versus-stage').children[1].style.clipPath") == "inset(0px 0px 0px 25%)"
    )
    assert texts(page, "#versus-facts li") == ["seed: 1 → 2"]
    page.check("input[value=difference]")
    assert _brightness(page) > 20
    page.keyboard.press("Escape")
    page.fill("#pair-search", "red circle")
    page.locator("#pairs button").nth(0).click()
    assert page.inner_text("#versus-facts p").startswith("bit-exact")
    assert _brightness(page) == 0


def _brightness(page: Any) -> float:
    """Return the mean level of the picture in the middle of the stage, as it is on the screen."""
    import io

    import numpy as np
    from PIL import Image

    wait_until(page, "[...document.querySelectorAll('#versus-stage img')].every(i => i.complete)")
    box = page.locator("#versus-stage").bounding_box()
    middle = {"x": box["x"] + box["width"] / 2 - 40, "y": box["y"] + box["height"] / 2 - 40, "width": 80, "height": 80}
    with Image.open(io.BytesIO(page.screenshot(clip=middle))) as picture:
        return float(np.asarray(picture.convert("RGB")).mean())


def test_a_page_of_a_run_loads_itself_again_but_not_under_the_readers_hands(tmp_path: Path, open_page: Open) -> None:
    path = tmp_path / "index.html"

    def write(count: int, reload: float) -> None:
        outputs = [ReportedOutput(id=f"r{n}", status="done") for n in range(count)]
        folder = FolderData(name="live", outputs=outputs, models=["m"], runs=[], groups=[])
        data = PageData(made="2026-01-01", thumbs="thumbs", folders=[folder], pairs=None, reload=reload)
        path.write_text(render_page(data), encoding="utf-8")

    write(1, 1.0)  # longer than it takes to load, also beside other programs
    page = open_page(path, "#view=gallery&open=0.0")  # with an output open, from the start
    write(2, 0)
    page.wait_for_timeout(1500)
    assert page.locator("#cards li").count() == 1
    page.keyboard.press("Escape")
    page.locator("#cards li").nth(1).wait_for()  # a wait that outlives the navigation


def test_ten_thousand_outputs_are_one_page_of_which_sixty_are_shown(tmp_path: Path, open_page: Open) -> None:
    outputs = [
        ReportedOutput(id=f"r{n}", status="done", row=f'{{"prompt":"cat {n}"}}', kind="data", url="x")
        for n in range(10_000)
    ]
    folder = FolderData(name="big", outputs=outputs, models=["m"], runs=[], groups=[])
    data = PageData(made="2026-01-01", thumbs="thumbs", folders=[folder], pairs=None, reload=0)
    path = tmp_path / "index.html"
    path.write_text(render_page(data), encoding="utf-8")
    page = open_page(path)
    assert page.locator("#cards li").count() == 60
    page.fill("#search", "cat 9999")
    assert texts(page, "#cards .name") == ["r9999"]
    page.fill("#search", "")
    page.locator("#cards button").nth(0).focus()
    page.keyboard.press("ArrowRight")
    assert texts(page, "#cards .name")[0] == "r60"
    assert "page=2" in page.url


@pytest.mark.parametrize(("theme", "width"), [("light", 1440), ("dark", 390)])
def test_screen_readers_and_weak_eyes_are_served_in_every_view(
    pages: dict[str, Path], open_page: Open, theme: str, width: int
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-core checks the accessibility").Axe()
    page = open_page(pages["two"], color_scheme=theme, viewport={"width": width, "height": 900})
    problems: dict[str, Any] = {}

    def check(view: str) -> None:
        assert page.evaluate("document.documentElement.scrollWidth") <= width, view
        found = axe.run(page, options={"resultTypes": ["violations"]}).response["violations"]
        problems.update({f"{view} {each['id']}": [node["html"] for node in each["nodes"]][:3] for each in found})

    check("compare")
    page.locator("#pairs button").nth(1).click()
    check("versus")
    page.keyboard.press("Escape")
    for view in ("gallery", "groups", "runs"):
        page.click(f"[data-view={view}]")
        check(view)
    page.click("[data-view=gallery]")
    page.locator("#cards button").nth(3).click()
    check("detail")
    assert problems == {}
