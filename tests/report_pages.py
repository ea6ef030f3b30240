"""Reports of every kind as files for a browser: made by hand, of many trials, and of runs that took place."""

import random
from collections.abc import Callable
from pathlib import Path

from profile_builder import a_hostile_profile, an_empty_profile
from result_builder import (
    a_hostile_result,
    a_keep,
    a_profile_result,
    a_result,
    an_empty_result,
    many_trials,
    some_findings,
    some_trials,
)  # fmt: skip

from advisor.report import files
from advisor.result.document import Interval, ProfileData, ResultData
from advisor.result.reading import read_document

REAL = Path(__file__).parent / "real"


def a_full_result() -> ResultData:
    """A change with findings of every state, a profile of the winner, memory and limits of the machine."""
    summary = a_result().profile.model_copy(
        update={
            "phases_after_ms": {"input_wait": 0.4, "forward": 7.1, "backward": 10.2, "other": 0.5},
            "replays": {"loader_free": Interval(estimate=0.41, low=0.38, high=0.44)},
            "replays_after": {"loader_free": Interval(estimate=0.02, low=0.0, high=0.04)},
            "memory_bytes": {"parameter": 44 * 2**20, "activation": 410 * 2**20, "host_peak": 913 * 2**20},
            "rates": {"matmul_float32_flops": 60.9e9}, "roofline": {"flops": 0.31, "memory": 0.12},
        }
    )  # fmt: skip
    trials = [
        trial.model_copy(update={"peak_bytes": trial.peak_bytes and trial.peak_bytes + at * 2**22})
        for at, trial in enumerate(some_trials())
    ]
    return a_result(profile=summary, findings=some_findings(), trials=trials)


def of_many_trials(count: int) -> ResultData:
    """A search of so many trials, whose peak memory differs."""
    source = random.Random(3)
    trials = [
        trial.model_copy(update={"peak_bytes": source.randint(400, 1400) * 2**20})
        if trial.state == "complete"
        else trial
        for trial in many_trials(count)
    ]
    return a_result(trials=trials, findings=some_findings())


KINDS: dict[str, Callable[[], ResultData | ProfileData]] = {
    "empty": an_empty_result,
    "keep": a_keep,
    "change": a_full_result,
    "profile": a_profile_result,
    "empty profile": an_empty_profile,
    "200 trials": lambda: of_many_trials(200),
    "hostile": a_hostile_result,
    "hostile profile": a_hostile_profile,
    "5000 trials": lambda: of_many_trials(5000),
    "real tune": lambda: read_document(REAL / "tune_resnet18.json"),
    "real profile": lambda: read_document(REAL / "profile_many_heads.json"),
}
"""A report of each kind that a browser test opens."""


def write(kind: str, folder: Path) -> Path:
    """The report of a kind as a file in ``folder``."""
    path = folder / f"{kind.replace(' ', '_')}.html"
    path.write_text(files.render_html(KINDS[kind]()), encoding="utf-8")
    return path
