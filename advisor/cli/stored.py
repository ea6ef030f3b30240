"""A storage as the user gave it, or the default one."""

from advisor.cli.options import typed_here
from advisor.cli.output import warn
from advisor.storage_url import DEFAULT_STORAGE, StorageUrl, parse_storage


def parse_given(storage: str | None) -> StorageUrl:
    """The storage of a command that reads; warns when a password was typed.

    Raises:
        UsageError: Not a storage URL.
        EnvironmentProblem: The library for PostgreSQL is not installed.
    """
    url = parse_storage(
        DEFAULT_STORAGE if storage is None else storage, from_environment=not typed_here("--storage")
    )
    for text in url.warnings:
        warn(text)
    return url
