"""What is said of the best so far while trials run."""

import math

from remembered_progress import Told

from advisor.stages.trials import TrialLog
from advisor.tuners.search.record import TrialRecord
from advisor.tuners.space.configuration import Configuration


class Best(Told):
    """Remembers what it is told of the best so far."""

    def trial(self, number: int, text: str, best: str, left_s: float) -> None:
        self.say(best)


def test_the_best_so_far_is_unconfirmed_unless_it_is_what_was_confirmed() -> None:
    told = Best()
    trials = TrialLog(told, lambda: 0.0, 60.0)
    record = TrialRecord(1, Configuration({"num_workers": 2}), "screen")
    trials.begin(record, 0.0)
    trials.begin(record, math.log(1.5))
    trials.confirmed = math.log(1.5)
    trials.begin(record, math.log(1.5))
    trials.begin(record, math.log(1.7))
    assert told.said == ["the baseline", "1.50x (unconfirmed)", "1.50x", "1.70x (unconfirmed)"]
