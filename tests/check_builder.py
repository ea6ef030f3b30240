"""Checks built by hand: one that passed, one that failed."""

from typing import Any

from result_builder import MACHINE, a_ratio, an_interval

from advisor.result.check import CheckData, Checked, ReferenceFacts
from advisor.result.document import Budget, Interval, ProfileSummary
from advisor.result.header import Target

MIB = 2**20


def a_passed_step() -> Checked:
    return Checked(
        then=an_interval(38.4), now=an_interval(38.6), ratio=a_ratio(1.005, 0.97, 1.04, 0, 6),
        verdict="unchanged", smallest_regression=0.057,
    )  # fmt: skip


def a_slower_step() -> Checked:
    return Checked(
        then=an_interval(38.4), now=an_interval(50.3), ratio=a_ratio(1.31, 1.24, 1.38, 0, 6),
        verdict="regressed", smallest_regression=0.076,
    )  # fmt: skip


def some_memory() -> Checked:
    peak = float(913 * MIB)
    return Checked(
        then=Interval(estimate=peak, low=peak, high=peak),
        now=Interval(estimate=915.0 * MIB, low=914.0 * MIB, high=916.0 * MIB),
        ratio=a_ratio(1.002, 0.998, 1.006, 0, 6), verdict="unchanged", smallest_regression=0.024,
    )  # fmt: skip


def a_check(**fields: Any) -> CheckData:
    """A check of a script that passed; any field of ``CheckData`` may be replaced."""
    values: dict[str, Any] = {
        "advisor_version": "0.1.0",
        "command": ["check", "train.py", "--against", "old", "--", "--epochs", "1"],
        "created": "2026-11-21T09:00:00+00:00",
        "target": Target(
            path="train.py", kind="script", args=["--epochs", "1"], digest="sha256:9b1c", launches=6,
        ),
        "machine": MACHINE,
        "profile": ProfileSummary(phases_ms={"forward": 8.1, "backward": 23.4, "sync": 0.0}),
        "budget": Budget(seconds=62.4, trials=0, stopped_by="budget"),
        "verdict": "passed",
        "reference": ReferenceFacts(
            path="old", made_by="tune", created="2026-11-20T11:12:00+00:00", digest="sha256:9b1c",
            phases_ms={"forward": 7.9, "backward": 11.4, "sync": 0.0},
        ),
        "code_changed": False,
        "step_ms": a_passed_step(),
        "peak_bytes": some_memory(),
        "instances": 6,
        "excluded_slots": {"other_load": 0},
    }  # fmt: skip
    return CheckData(**(values | fields))


def a_failed_check(**fields: Any) -> CheckData:
    return a_check(**({"verdict": "regressed", "step_ms": a_slower_step(), "code_changed": True} | fields))
