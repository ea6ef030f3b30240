"""Templates filled in: one offline page with its styles and script inside."""

import base64
import hashlib
import re
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from advisor.result import wording

if TYPE_CHECKING:
    from jinja2 import Environment

CODE = re.compile(r"(`+)([^`\n]+)\1")


def rendered(template: str, content: object) -> str:
    """A whole page: the template with its content, styles and script."""
    script = asset("report.js")
    digest_of_script = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        templates()
        .get_template(template)
        .render(
            page=content,
            style=Markup(asset("palette.css") + asset("report.css")),
            script=Markup(script),
            script_digest=digest_of_script,
        )
    )


def asset(name: str) -> str:
    """A file of the templates as text."""
    return resources.files("advisor.templates").joinpath(name).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def templates() -> "Environment":
    """jinja2's environment: every value is escaped, a name that is missing is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("advisor.templates", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_harmless,
    )
    environment.filters["prose"] = prose
    return environment


def prose(text: str) -> Markup:
    """Text in which what stands between backticks is code; all of it is escaped first."""
    return Markup(CODE.sub(r"<code>\2</code>", str(escape(wording.shown_block(text, 200_000)))))


def _harmless(value: Any) -> Any:
    """A net under ``shown``: whatever text reaches a template carries no control characters."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return wording.shown_block(value, 200_000)
    return value
