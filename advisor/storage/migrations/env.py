"""Run by Alembic for every command: on the connection that the caller gave, inside its transaction."""

from alembic import context

from advisor.storage.migrations import PLACE_TABLE

if hasattr(context, "config"):  # only while Alembic runs a command
    context.configure(connection=context.config.attributes["connection"], version_table=PLACE_TABLE)
    context.run_migrations()
