"""A run's trials come back as they were kept, in a tenth of the memory."""

import sys
import tracemalloc

from advisor.kept_trials import KeptTrials
from advisor.result import Interval, Loss, Ratio, Trial

COUNT = 200
MOST_KB = 1.0  # a trial; as an object it takes 6.8


def a_trial(number: int) -> Trial:
    return Trial(
        number=number,
        config={f"knob_{place}": place % 3 for place in range(11)},
        stage="search",
        state="complete",
        marks=["recompiled 2 times after warm-up"],
        step_ms=Interval(estimate=1 / 3 + number, low=0.1, high=1e9),
        loss=Loss(first=None, last=2 / 3, steps=7),
        against_baseline=Ratio(
            estimate=1.01, low=sys.float_info.min, high=1.1, quads=4, instances=2, confidence=0.9
        ),
        log="logs/<b>ä</b>",
    )


def test_trials_are_what_they_were_one_by_one_in_part_and_all_together() -> None:
    trials = [a_trial(number) for number in range(5)]
    kept = KeptTrials(trials[:4])
    kept.append(trials[4])
    assert (list(kept), kept[1:3], kept[-1], len(kept)) == (trials, trials[1:3], trials[4], 5)


def test_a_trial_takes_little_memory() -> None:
    a_trial(0).model_dump_json()
    kept = KeptTrials()
    tracemalloc.start()
    try:
        for number in range(COUNT):
            kept.append(a_trial(number))
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used < MOST_KB * 1024 * COUNT
