"""How long a lease of a trial lasts, and how long a database may take to answer."""

import os
from dataclasses import dataclass, fields

from advisor.errors import UsageError

VARIABLE = "ADVISOR_TEST_LEASE_TIMES"


@dataclass(frozen=True)
class LeaseTimes:
    """Seconds. Tests shorten them by the variable ``ADVISOR_TEST_LEASE_TIMES=period_s=0.2,expiry_s=1``.

    Attributes:
        period_s: Between two renewals, and between two looks for leases that expired.
        expiry_s: After the last renewal, before the trial is given to another worker.
        deadline_s: For one call of the database, before its connection is dropped.
        limit_s: For a database to come back, before the worker ends.
    """

    period_s: float = 30.0
    expiry_s: float = 90.0
    deadline_s: float = 30.0
    limit_s: float = 300.0

    @classmethod
    def from_environment(cls) -> "LeaseTimes":
        """The usual times, unless a test wants others.

        Raises:
            UsageError: The variable names something else, or what is no number.
        """
        given: dict[str, float] = {}
        known = [field.name for field in fields(cls)]
        for part in filter(None, os.environ.get(VARIABLE, "").split(",")):
            name, _, text = part.partition("=")
            try:
                given[name] = float(text)
            except ValueError:
                given[name] = -1.0
            if name not in known or not 0 < given[name] < 1e6:
                raise UsageError(f"'{part}' is no time of a lease", where=VARIABLE, hint=", ".join(known))
        return cls(**given)
