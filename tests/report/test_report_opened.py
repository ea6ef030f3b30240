"""Reports opened in a real browser: no error, no request, readable without scripts and on paper."""

import base64
import io
import threading
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from browser import BROWSER, Opened, browser_of, opened
from report_pages import KINDS, write

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
pytestmark = [pytest.mark.browsers, pytest.mark.skipif(BROWSER is None, reason="no Chromium here")]

COLOURS = {"light": "rgb(255, 255, 255)", "dark": "rgb(13, 17, 23)"}
SHAPE = """() => ({
  headings: [...document.querySelectorAll('h1,h2,h3')].map(h => h.textContent),
  tables: [...document.querySelectorAll('caption')].map(c => c.textContent),
  charts: [...document.querySelectorAll('svg > title')].map(t => t.textContent),
})"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where reports and screenshots lie, kept after the tests as any temporary folder of pytest."""
    return tmp_path_factory.mktemp("reports")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with browser_of() as found:
        yield found


@pytest.fixture(scope="module", params=KINDS)
def page_file(request: pytest.FixtureRequest, folder: Path) -> Path:
    return write(request.param, folder)


@pytest.fixture(scope="module")
def seen(browser: Any, page_file: Path) -> Iterator[Opened]:
    """The report of a kind, opened once without a network."""
    with opened(browser, page_file, offline=True) as found:
        yield found


@pytest.fixture(scope="module")
def report_of(folder: Path) -> Callable[[str], Path]:
    return lambda kind: write(kind, folder)


def test_a_report_from_a_file_asks_for_nothing_and_reports_no_error(seen: Opened, page_file: Path) -> None:
    assert seen.requests == [page_file.as_uri()]
    assert (seen.errors, seen.dialogs) == ([], [])
    assert seen.page.evaluate("document.querySelectorAll('script').length") == 1


@pytest.mark.parametrize("kind", ["profile", "hostile"])
def test_a_report_from_a_server_asks_for_the_document_alone(
    browser: Any, report_of: Callable[[str], Path], kind: str
) -> None:
    path = report_of(kind)
    with served(path.parent) as (address, asked), opened(browser, f"{address}/{path.name}") as served_page:
        assert served_page.errors == [] and served_page.dialogs == []
        assert [line for line in asked if "favicon" not in line] == [f"/{path.name}"]


@pytest.mark.parametrize("width", [1280, 320])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fills_the_window_in_both_schemes_and_never_scrolls_sideways(
    seen: Opened, page_file: Path, scheme: str, width: int
) -> None:
    seen.page.emulate_media(color_scheme=scheme)
    seen.page.set_viewport_size({"width": width, "height": 900})
    picture = page_file.with_name(f"{page_file.stem}-{scheme}-{width}.png")
    seen.page.screenshot(path=picture)
    assert seen.page.evaluate("getComputedStyle(document.body).backgroundColor") == COLOURS[scheme]
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width, wide(seen)
    corner, colours = pixels(seen, picture)
    assert corner == COLOURS[scheme]
    assert colours > 10, "the picture is blank"


@pytest.mark.parametrize("wish", [{"reduced_motion": "reduce"}, {"forced_colors": "active"}], ids=str)
def test_reduced_motion_and_forced_colours_leave_a_readable_page(seen: Opened, wish: dict[str, Any]) -> None:
    seen.page.emulate_media(**wish)
    try:
        ink, ground = seen.page.evaluate(
            "(s => [s.color, s.backgroundColor])(getComputedStyle(document.body))"
        )
        assert ink != ground
        assert seen.page.locator("h2").first.is_visible()
        assert seen.errors == []
    finally:
        seen.page.emulate_media(**dict.fromkeys(wish, "null"))


def wide(seen: Opened) -> Any:
    """What reaches beyond the window without scrolling in a place of its own."""
    return seen.page.evaluate(
        """() => [...document.body.querySelectorAll('*')].filter(e => !e.closest('.scroll, pre, svg')
        && e.getBoundingClientRect().right > innerWidth + 1)
        .map(e => e.outerHTML.slice(0, 120)).slice(0, 5)"""
    )


def pixels(seen: Opened, picture: Path) -> tuple[str, int]:
    """The colour of a corner of a picture, and how many colours it has."""
    address = "data:image/png;base64," + base64.b64encode(picture.read_bytes()).decode()
    blank = seen.page.context.new_page()
    found = blank.evaluate(
        """async address => {
        const image = new Image(); image.src = address; await image.decode();
        const canvas = document.createElement('canvas');
        canvas.width = image.width; canvas.height = image.height;
        const context = canvas.getContext('2d'); context.drawImage(image, 0, 0);
        const data = new Uint32Array(context.getImageData(0, 0, image.width, image.height).data.buffer);
        const [r, g, b] = context.getImageData(2, 2, 1, 1).data;
        return [`rgb(${r}, ${g}, ${b})`, new Set(data).size]; }""",
        address,
    )
    blank.close()
    return found[0], found[1]


def test_without_scripts_the_same_can_be_read_and_nothing_is_dead(
    browser: Any, seen: Opened, page_file: Path
) -> None:
    with opened(browser, page_file, java_script_enabled=False) as bare:
        assert bare.page.evaluate(SHAPE) == seen.page.evaluate(SHAPE)
        assert bare.page.locator("button, input, select").count() == 0
        fold = bare.page.locator("summary").first
        if fold.count():
            fold.click()
            assert bare.page.locator("details[open]").count() > 0


@pytest.mark.parametrize("kind", ["change", "real tune", "hostile profile"])
def test_tab_walks_everything_in_order_with_a_visible_ring(
    browser: Any, report_of: Callable[[str], Path], kind: str
) -> None:
    with opened(browser, report_of(kind)) as seen:
        page = seen.page
        count = page.evaluate(
            """() => { window.order = [...document.querySelectorAll('a, button, summary, [tabindex="0"]')]
            .filter(e => e.checkVisibility()); return window.order.length; }"""
        )
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        for at in range(count):
            place, ring, right = page.evaluate(
                """() => { const e = document.activeElement, s = getComputedStyle(e);
                return [window.order.indexOf(e), s.outlineStyle + ' ' + parseFloat(s.outlineWidth),
                e.getBoundingClientRect().right]; }"""
            )
            assert place == at
            assert ring.split()[0] != "none" and float(ring.split()[1]) >= 2
            assert right > 0
            page.keyboard.press("Tab")


def test_the_skip_link_leads_to_the_report(browser: Any, report_of: Callable[[str], Path]) -> None:
    with opened(browser, report_of("change")) as seen:
        seen.page.keyboard.press("Tab")
        seen.page.keyboard.press("Enter")
        assert seen.page.evaluate("location.hash") == "#main"
        seen.page.keyboard.press("Tab")
        assert seen.page.evaluate("document.getElementById('main').contains(document.activeElement)")


@pytest.mark.parametrize(
    ("kind", "paper"),
    [("empty", "A4"), ("change", "A4"), ("change", "Letter"), ("profile", "A4"), ("hostile", "A4")],
)
def test_on_paper_everything_is_unfolded_and_light(
    browser: Any, report_of: Callable[[str], Path], kind: str, paper: str
) -> None:
    pypdf = pytest.importorskip("pypdf", reason="pypdf is not installed")
    path = report_of(kind)
    with opened(browser, path, color_scheme="dark") as seen:
        document = pypdf.PdfReader(io.BytesIO(seen.page.pdf(format=paper)))
        printed = squeezed("".join(page.extract_text() for page in document.pages))
        assert len(document.pages) > 0
        for words in seen.page.evaluate(
            """() => [document.querySelector('#verdict'), ...document.querySelectorAll(
            'summary, details dt, details dd, details td, details pre')].map(e => e.textContent)"""
        ):
            first = squeezed(words)[:40]
            assert not first.isascii() or first in printed, words
        seen.page.emulate_media(media="print")
        assert seen.page.evaluate("getComputedStyle(document.body).backgroundColor") == COLOURS["light"]
        assert not seen.page.locator(".button, nav, .filters").filter(visible=True).count()


def squeezed(text: str) -> str:
    """Without what a page on paper changes: spaces, ends of lines, joined letters."""
    return "".join(unicodedata.normalize("NFKC", text).split())


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """A server of a folder on this machine: its address, and what it was asked for."""
    asked: list[str] = []

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            super().do_GET()

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing is written to the terminal."""

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", asked
        finally:
            server.shutdown()
            thread.join()
