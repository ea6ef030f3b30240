"""What a shell is told when a word is to be completed: knobs with their values, studies, files.

It is asked on every press of a key, so nothing heavy is imported, no server is asked, and what cannot be
read has no completions.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from urllib.parse import quote

import click
from click.shell_completion import CompletionItem

from advisor.base.errors import AdvisorError
from advisor.storage.storage_url import DEFAULT_STORAGE, parse_storage

MOST = 200
WAIT_S = 0.1  # for a lock of the database

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def complete_file(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Left to the shell: a file."""
    return [CompletionItem(typed, type="file")]


def complete_folder(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Left to the shell: a folder."""
    return [CompletionItem(typed, type="dir")]


def complete_knob(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """``ID``, and behind ``ID=`` the values of the knob that are not named yet."""
    from advisor.tuners.knobs import KNOBS

    name, equals, values = typed.partition("=")
    if not equals:
        return [CompletionItem(each) for each in KNOBS if each.startswith(name)]
    if name not in KNOBS:
        return []
    before, comma, last = values.rpartition(",")
    named = before.split(",")
    legal = [str(value) for value in KNOBS[name].values()[:MOST]]
    return [
        CompletionItem(f"{name}={before}{comma}{value}")
        for value in legal
        if value.startswith(last) and value not in named
    ]


def complete_study(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Names of the studies of the storage that is set, or of the default one."""
    given = context.params.get("storage") or DEFAULT_STORAGE
    return [CompletionItem(name) for name in _studies(str(given)) if name.startswith(typed)]


def complete_result(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """A study, or a file."""
    return complete_study(context, parameter, typed) or complete_file(context, parameter, typed)


BY_OPTION: dict[str, Completer] = {
    "--knob": complete_knob,
    "--fix": complete_knob,
    "--study": complete_study,
    "--out": complete_folder,
    "--against": complete_file,
}


def completer_of(declarations: Sequence[str]) -> Completer | None:
    """How the value of an option is completed where its type does not say it: by the option's name."""
    return next((BY_OPTION[name] for name in declarations if name in BY_OPTION), None)


def _studies(storage: str) -> Iterator[str]:
    try:
        path = parse_storage(storage, from_environment=True).path
        if path is None or not path.is_file():
            return
        in_use = path.with_name(f"{path.name}-wal").exists()  # else reading would leave such a file
        url = f"file:{quote(str(path))}?{'mode=ro' if in_use else 'immutable=1'}"
        with closing(sqlite3.connect(url, uri=True, timeout=WAIT_S)) as connection:
            rows = connection.execute("SELECT name FROM advisor_studies ORDER BY name LIMIT ?", (MOST,))
            yield from [str(name) for (name,) in rows]
    except (AdvisorError, sqlite3.Error):
        return
