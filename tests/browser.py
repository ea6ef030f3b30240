"""A Chromium of this machine, driven by Playwright, and what a page did while it was open."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = ["--no-sandbox", "--disable-gpu", "--force-color-profile=srgb"]
DEADLINE_MS = 60_000  # for a machine that does much else

NOTICE_POLICY = """document.addEventListener('securitypolicyviolation',
  e => console.error('policy: ' + e.violatedDirective + ' ' + e.blockedURI));"""


@dataclass
class Opened:
    """A page, and everything it asked for, complained of or asked the user."""

    page: Any
    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)

    def dismissed(self, dialog: Any) -> None:
        """Note a dialog, which is closed so that the page goes on."""
        self.dialogs.append(dialog.message)
        dialog.dismiss()


@contextmanager
def browser_of() -> Iterator[Any]:
    """The browser without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=OPTIONS, timeout=DEADLINE_MS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser: Any, address: Path | str, **context: Any) -> Iterator[Opened]:
    """A file or an address in a context of its own; ``context`` as Playwright's ``new_context`` takes it."""
    place = browser.new_context(**context)
    place.set_default_timeout(DEADLINE_MS)
    try:
        if context.get("java_script_enabled", True):
            place.add_init_script(NOTICE_POLICY)
        seen = Opened(place.new_page())
        seen.page.on("request", lambda request: seen.requests.append(request.url))
        seen.page.on("pageerror", lambda error: seen.errors.append(str(error)))
        seen.page.on("dialog", seen.dismissed)
        seen.page.on(
            "console",
            lambda line: seen.errors.append(line.text) if line.type in ("error", "warning") else None,
        )
        seen.page.goto(address if isinstance(address, str) else address.as_uri())
        yield seen
    finally:
        place.close()
