"""One writer a study: the tables that several workers shared are gone."""

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Drop the tables, and call the one process of a study what it is."""
    op.drop_table("advisor_leases")
    op.drop_table("advisor_groups")
    op.execute("ALTER TABLE advisor_studies RENAME COLUMN worker TO writer")
