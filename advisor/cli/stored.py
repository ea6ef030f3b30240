"""A storage as the user gave it, or the default one."""

from collections.abc import Sequence

import click

from advisor.cli.options import typed_here
from advisor.cli.output import warn
from advisor.storage.storage_url import DEFAULT_STORAGE, StorageUrl, parse_storage


def parse_given(storage: str | None) -> StorageUrl:
    """The storage of a command that reads; warns when a password was typed.

    Raises:
        UsageError: Not a storage URL.
        EnvironmentProblem: The library for PostgreSQL is not installed.
    """
    is_typed = typed_here(click.get_current_context(), "storage")
    url = parse_storage(DEFAULT_STORAGE if storage is None else storage, from_environment=not is_typed)
    for text in url.warnings:
        warn(text)
    return url


def written_command(
    command: str, typed: Sequence[str], url: StorageUrl, arguments: Sequence[str]
) -> tuple[str, ...]:
    """What was typed, without the password of a storage URL.

    Args:
        command: Of advisor.
        typed: Words before ``--``.
        url: What ``--storage`` means, if it was typed.
        arguments: Words after ``--``.
    """
    words, previous = [command], ""
    for word in typed:
        if previous == "--storage":
            words.append(str(url))
        else:
            words.append(f"--storage={url}" if word.startswith("--storage=") else word)
        previous = word
    return (*words, "--", *arguments) if arguments else tuple(words)
