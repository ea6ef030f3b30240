"""Adds what is made of the code, and the examples, to the site each time it is built."""

import json
import posixpath
import re
from pathlib import Path
from typing import Any

import catalogue
import commands
import fields
import figures
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from advisor.result.document import schema

ROOT = Path(__file__).parents[2]
OUTSIDE = re.compile(r"\]\((?:\.\./)+(examples/[^)#\s]+)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Called by mkdocs once the written pages are known."""
    made = {
        **dict(catalogue.pages()),
        "commands.md": commands.page(),
        "fields.md": fields.page(),
        "figures.md": figures.page(),
        fields.SCHEMA_FILE: json.dumps(schema(), indent=2, sort_keys=True) + "\n",
    }
    for path, content in made.items():
        files.append(File.generated(config, path, content=content))
    for file in sorted((ROOT / "examples").rglob("*")):
        if file.is_file() and file.suffix not in (".md", ".pyc"):
            name = file.relative_to(ROOT).as_posix()
            files.append(File.generated(config, name, abs_src_path=str(file)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Called for each page: links to examples, which lie beside these pages, lead to their copies."""
    here = posixpath.dirname(page.file.src_uri)
    return OUTSIDE.sub(lambda found: f"]({posixpath.relpath(found[1], here or '.')})", markdown)
