"""The result of a study in the database; while the study runs, all of it but the trials.

The trials lie in a table of their own, a row each. Written once more with every trial they would make the
writing of a long study grow with the square of its length.
"""

import json
from typing import Any

import sqlalchemy as sa

from advisor.result.document import ResultData
from advisor.storage.database import Database, replace
from advisor.storage.tables import results, trials


def save(connection: sa.Connection, study: str, result: ResultData, *, finished: bool) -> None:
    """Keep a result in place of the one before; of one that is not ``finished`` the trials are left out."""
    document = json.loads((result if finished else result.model_copy(update={"trials": []})).to_json())
    if not finished:
        del document["trials"]
    found = {"verdict": result.recommendation.verdict, "data": document}
    replace(connection, results, {"study": study}, found)


def load(database: Database, study: str) -> ResultData | None:
    """The result of a study with all its trials, if it got that far."""
    query = sa.select(results.c.data).where(results.c.study == study)
    with database.reading() as connection:
        data: dict[str, Any] | None = connection.execute(query).scalar()
        if data is None:
            return None
        if "trials" not in data:
            ended = sa.select(trials.c.data).where(trials.c.study == study, trials.c.finished)
            data = {**data, "trials": connection.execute(ended.order_by(trials.c.number)).scalars().all()}
    return ResultData.model_validate(data)
