"""The first schema: studies with their trials, comparisons, profiles and results, and the machines."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "advisor_version",
        sa.Column("schema", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("advisor", sa.String(50), nullable=False),
    )
    op.create_table(
        "advisor_studies",
        sa.Column("name", sa.String(200), primary_key=True),
        sa.Column("created", sa.String(32), nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("contract", sa.JSON, nullable=False),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("worker", sa.JSON),
    )
    op.create_table(
        "advisor_machines",
        sa.Column("fingerprint", sa.String(64), primary_key=True),
        sa.Column("data", sa.JSON, nullable=False),
    )
    op.create_table(
        "advisor_profiles",
        _study(primary_key=True),
        sa.Column("kind", sa.String(50), primary_key=True),
        sa.Column("data", sa.JSON, nullable=False),
    )
    op.create_table(
        "advisor_trials",
        _study(primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("finished", sa.Boolean, nullable=False),
        sa.Column("asked", sa.Integer),
        sa.Column("value", sa.Double),
        sa.Column("data", sa.JSON, nullable=False),
    )
    op.create_table(
        "advisor_comparisons",
        sa.Column("id", sa.Integer, primary_key=True),
        _study(),
        sa.Column("trial", sa.Integer, nullable=False),
        sa.Column("kind", sa.String(50), nullable=False),
        sa.Column("data", sa.JSON, nullable=False),
    )
    op.create_index("advisor_comparisons_of_trial", "advisor_comparisons", ["study", "trial"])
    op.create_table(
        "advisor_results",
        _study(primary_key=True),
        sa.Column("verdict", sa.String(20), nullable=False),
        sa.Column("data", sa.JSON, nullable=False),
    )


def _study(primary_key: bool = False) -> "sa.Column[str]":
    study = sa.ForeignKey("advisor_studies.name")
    return sa.Column("study", sa.String(200), study, nullable=False, primary_key=primary_key)
