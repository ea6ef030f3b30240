"""Our tables as the last step of ``storage/migrations`` leaves them, beside Optuna's in one database."""

import sqlalchemy as sa

metadata = sa.MetaData()

# A row for each schema that the database was brought to, and the version of advisor that did it.
version = sa.Table(
    "advisor_version",
    metadata,
    sa.Column("schema", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("advisor", sa.String(50), nullable=False),
)

studies = sa.Table(
    "advisor_studies",
    metadata,
    sa.Column("name", sa.String(200), primary_key=True),
    sa.Column("created", sa.String(32), nullable=False),
    sa.Column("target", sa.Text, nullable=False),
    sa.Column("contract", sa.JSON, nullable=False),
    sa.Column("status", sa.String(20), nullable=False),
    sa.Column("writer", sa.JSON(none_as_null=True)),
)


def _study(primary_key: bool = False) -> "sa.Column[str]":
    return sa.Column("study", sa.ForeignKey("advisor_studies.name"), nullable=False, primary_key=primary_key)


machines = sa.Table(
    "advisor_machines",
    metadata,
    sa.Column("fingerprint", sa.String(64), primary_key=True),
    sa.Column("data", sa.JSON, nullable=False),
)

profiles = sa.Table(
    "advisor_profiles",
    metadata,
    _study(primary_key=True),
    sa.Column("kind", sa.String(50), primary_key=True),
    sa.Column("data", sa.JSON, nullable=False),
)

# A trial that has begun is there with finished = false and the outcome it has if nobody ever ends it.
trials = sa.Table(
    "advisor_trials",
    metadata,
    _study(primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("finished", sa.Boolean, nullable=False),
    sa.Column("asked", sa.Integer),
    sa.Column("value", sa.Double),
    sa.Column("data", sa.JSON, nullable=False),
)

comparisons = sa.Table(
    "advisor_comparisons",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    _study(),
    sa.Column("trial", sa.Integer, nullable=False),
    sa.Column("kind", sa.String(50), nullable=False),
    sa.Column("data", sa.JSON, nullable=False),
    sa.Index("advisor_comparisons_of_trial", "study", "trial"),
)

results = sa.Table(
    "advisor_results",
    metadata,
    _study(primary_key=True),
    sa.Column("verdict", sa.String(20), nullable=False),
    sa.Column("data", sa.JSON, nullable=False),
)
