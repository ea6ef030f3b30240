"""The documentation as a site: it builds without a warning, has a page for all, and fetches nothing."""

import html
import inspect
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import click
import pytest

from advisor.cli import AVAILABLE, Commands
from advisor.result.document import schema
from advisor.rules import RULES
from advisor.tuners.knobs import KNOBS
from advisor.tuners.strategies import STRATEGIES

ROOT = Path(__file__).parents[1]
MEMBERS = [
    *(("rules", name, one) for name, one in RULES.items()),
    *(("knobs", name, one) for name, one in KNOBS.items()),
    *(("strategies", name, one) for name, one in STRATEGIES.items()),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it, in a folder of its own."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)], cwd=ROOT,
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


class Fetched(HTMLParser):
    """What a browser fetches of a page, and where its links lead."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.ids.add(found.get("id", ""))
        self.fetched += [found["src"]] if "src" in found else []
        if tag == "link" and found.get("rel") != "canonical":
            self.fetched.append(found.get("href", ""))
        if tag == "a" and "href" in found:
            self.links.append(found["href"])


def text_of(page: Path) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page.read_text(encoding="utf-8"))).split())


def plain(docstring: str) -> str:
    """The words of a docstring without its backticks."""
    return " ".join(docstring.replace("`", " ").split())


def test_every_rule_knob_and_strategy_has_a_page_with_its_docstring(site: Path) -> None:
    missing = []
    for folder, name, one in MEMBERS:
        page = site / folder / f"{name}.html"
        first = (inspect.getdoc(type(one)) or "").partition("\n\n")[0]
        if not page.is_file() or squeezed(plain(first)) not in squeezed(text_of(page)):
            missing.append(f"{folder}/{name}")
    assert missing == []


def squeezed(text: str) -> str:
    """Without spaces: markup may put some around code."""
    return re.sub(r"\s", "", text)


@pytest.mark.parametrize("index", ["rules", "knobs"])
def test_an_index_leads_to_all_pages_of_its_folder(site: Path, index: str) -> None:
    links = Fetched(site / index / "index.html").links
    assert {f"{name}.html" for folder, name, _ in MEMBERS if folder == index} <= set(links)


def test_every_command_and_option_is_in_the_reference(site: Path) -> None:
    text = text_of(site / "commands.html")
    root = Commands("advisor")
    ctx = click.Context(root)
    for name in AVAILABLE:
        command = root.get_command(ctx, name)
        assert command is not None and f"advisor {name}" in text
        for param in command.params:
            if isinstance(param, click.Option) and not param.hidden:
                assert max(param.opts, key=len) in text


def test_every_part_of_a_result_is_in_the_reference_and_the_schema_is_published(site: Path) -> None:
    page = Fetched(site / "fields.html")
    assert {name.lower() for name in schema()["$defs"]} <= page.ids
    assert json.loads((site / "result.schema.json").read_text()) == schema()


def test_no_page_fetches_anything_from_another_host(site: Path) -> None:
    outside = {
        (page.name, address)
        for page in site.rglob("*.html")
        for address in Fetched(page).fetched
        if urlsplit(address).scheme or address.startswith("//")
    }
    assert outside == set()


def test_every_link_and_anchor_of_the_site_leads_somewhere(site: Path) -> None:
    broken = []
    pages = {page: Fetched(page) for page in site.rglob("*.html")}
    for page, found in pages.items():
        for link in found.links:
            parts = urlsplit(link)
            if parts.scheme or link.startswith("//") or page.name in ("404.html", "search.html"):
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            target = target / "index.html" if target.is_dir() else target
            ids = pages[target].ids if target in pages else set()
            if not target.is_file() or (parts.fragment and target in pages and parts.fragment not in ids):
                broken.append(f"{page.relative_to(site)}: {link}")
    assert broken == []


def test_docstrings_that_look_like_markup_stay_text() -> None:
    told = "a <b> `<c>` [d](e) *f `amp`"
    program = f"from text import prose; print(prose({told!r}, {{'amp': 'x.md'}}))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT / "docs" / "generate", capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "a &lt;b> `<c>` &#91;d&#93;(e) &#42;f [`amp`](x.md)"
