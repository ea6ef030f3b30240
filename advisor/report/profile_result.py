"""What ``advisor.profile`` found, as an object that shows itself."""

from pathlib import Path
from typing import Any

from advisor.report.files import render_fragment, render_markdown, write_report
from advisor.report.showing import mime_bundle
from advisor.result.document import Finding, ProfileData

WIDTH = 100


class ProfileResult:
    """Findings and figures of one run. Displays itself in a notebook; ``data`` is all of result.json."""

    def __init__(self, data: ProfileData) -> None:
        self.data = data

    @property
    def findings(self) -> list[Finding]:
        """What the rules said, in report order."""
        return self.data.findings

    def save(self, folder: str | Path) -> list[Path]:
        """Write report.html, result.json and report.md into ``folder``.

        Raises:
            UsageError: The folder holds something else.
        """
        return write_report(self.data, Path(folder))

    def __repr__(self) -> str:
        from advisor.report.profile_text import render_profile

        return render_profile(self.data, WIDTH)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Text, HTML without script, and Markdown, for whatever a front end can show."""
        return mime_bundle(repr(self), lambda: render_fragment(self.data), lambda: render_markdown(self.data))
