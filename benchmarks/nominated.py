"""The command ``advisor`` with a search that nominates the placebo, whatever it measured.

    python -m benchmarks.nominated tune TARGET --knob placebo ...

So every run comes to a confirmation on fresh processes, which searches of a change that changes nothing
hardly ever do. Arguments as of ``advisor``.
"""

import math
import sys
from typing import Any
from unittest.mock import patch

from advisor.cli import main
from advisor.tuners.search.search import Search
from advisor.tuners.space.configuration import Configuration

PROMISED = math.log(1.3)  # log ratio that it is nominated with: few processes are to confirm that
SEARCHED = Search.run


def nominated(search: Search, *given: Any) -> Configuration:
    """Search, then nominate the placebo."""
    SEARCHED(search, *given)
    search.incumbent = search.space.complete(search.space.present.with_({"placebo": "on"}))
    search.score = PROMISED
    return search.incumbent


if __name__ == "__main__":
    with patch.object(Search, "run", nominated):
        sys.exit(main())
