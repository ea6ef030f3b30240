"""Our tables from the first schema to the present one: one file in ``versions/`` for each step.

A step is never changed once it was released: databases that it made exist. It names its tables itself and
imports nothing of ``advisor.storage.tables``, which only says how they look after the last one. Alembic keeps
its place in a table of its own, for ``alembic_version`` is Optuna's.
"""

import functools
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alembic.config import Config
    from sqlalchemy import Connection

PLACE_TABLE = "advisor_alembic_version"
FOLDER = Path(__file__).parent


@functools.cache
def newest() -> int:
    """The number of the last step: that of the present schema. Alembic is not imported for it."""
    return max(int(file.name[:4]) for file in (FOLDER / "versions").glob("[0-9]*_*.py"))


def revision(number: int) -> str:
    """A step as Alembic names it: ``0001``."""
    return f"{number:04}"


def upgrade(connection: "Connection", held: int | None, to: int | None = None) -> None:
    """Take the steps that a database lacks, in the transaction that is open; the caller commits.

    Args:
        connection: Holds the lock for writing.
        held: The schema that is there; ``None`` for none. The first databases have it without Alembic's
            place, which is noted here.
        to: The schema to stop at; the newest by default.
    """
    import sqlalchemy as sa
    from alembic import command

    config = _config(connection)
    if held is not None and not sa.inspect(connection).has_table(PLACE_TABLE):
        command.stamp(config, revision(held))
    command.upgrade(config, revision(newest() if to is None else to))


def _config(connection: "Connection") -> "Config":
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config
