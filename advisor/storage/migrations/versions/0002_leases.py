"""Studies that several workers share: groups of like machines, and leases of trials."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "advisor_groups",
        sa.Column(
            "study", sa.String(200), sa.ForeignKey("advisor_studies.name"), primary_key=True, nullable=False
        ),
        sa.Column("fingerprint", sa.String(64), primary_key=True),
        sa.Column("machine", sa.Text, nullable=False),
        sa.Column("baseline", sa.JSON, nullable=False),
    )
    op.create_table(
        "advisor_leases",
        sa.Column(
            "study", sa.String(200), sa.ForeignKey("advisor_studies.name"), primary_key=True, nullable=False
        ),
        sa.Column("fingerprint", sa.String(64), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("fence", sa.Integer, nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("worker", sa.String(100)),
        sa.Column("expires", sa.Double),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("config", sa.JSON, nullable=False),
        sa.Column("asked", sa.Integer),
        sa.Column("value", sa.Double),
        sa.Column("told", sa.Boolean, nullable=False),
        sa.Column("data", sa.JSON),
    )
