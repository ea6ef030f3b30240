"""Tables of studies that several workers share: groups of like machines, and who runs which trial."""

import sqlalchemy as sa

from advisor.tables import metadata

# A machine's fingerprint makes a group: what was measured in one is never compared with another.
groups = sa.Table(
    "advisor_groups",
    metadata,
    sa.Column("study", sa.ForeignKey("advisor_studies.name"), primary_key=True, nullable=False),
    sa.Column("fingerprint", sa.String(64), primary_key=True),
    sa.Column("machine", sa.Text, nullable=False),
    sa.Column("baseline", sa.JSON, nullable=False),
)

# ``fence`` moves with every change of owner; ``expires`` is a time of the database server's clock (UNIX, s).
# ``told`` says that Optuna knows how the trial ended.
leases = sa.Table(
    "advisor_leases",
    metadata,
    sa.Column("study", sa.ForeignKey("advisor_studies.name"), primary_key=True, nullable=False),
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
