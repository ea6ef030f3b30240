"""Results of searches over strategies, built by hand, with strategies that exist for the tests alone."""

from typing import Any

import pytest
from result_builder import NOW, a_keep, a_ratio, a_result, a_trial, an_adopted, some_trials

from advisor.result.document import Loss, RankUse, Recommendation, ResultData, Trial, Untried, Value
from advisor.tuners.knob import Change, Config, Semantics
from advisor.tuners.strategies import STRATEGIES
from advisor.tuners.strategy import Strategy

ALONE: dict[str, Value] = NOW | {"strategy": "single", "ranks": 1}
SENT = 51 * 2**20 / 10

RANKS: list[dict[str, Any]] = [
    {
        "rank": 0, "step_ms": 10.0, "compute_ms": 6.0, "communication_ms": 3.0, "exposed_ms": 2.0,
        "wait_ms": 1.5, "input_wait_ms": 0.5, "idle_ms": 2.0, "backend": "gloo", "communication_bytes": 2**20,
    },
    {
        "rank": 1, "step_ms": 10.0, "compute_ms": 8.0, "communication_ms": 1.5, "exposed_ms": 0.5,
        "input_wait_ms": 1.9, "idle_ms": 1.5, "backend": "gloo", "communication_bytes": 2**20,
    },
]  # fmt: skip
"""Rank 0 has nothing more to do and waits; the loader of rank 1 computes for 0.4 of its 1.9 ms."""


class Averaging(Strategy):
    """Computes the same in another order."""

    def change(self) -> Change:
        return Change("model = DistributedDataParallel(model)")


class Local(Strategy):
    """Learns something else, unless it averages after every step."""

    semantics = Semantics.TRAINING

    def meaning(self, config: Config) -> Semantics:
        return Semantics.ROUNDING if config.get("every") == 1 else self.semantics

    def change(self) -> Change:
        return Change("# average the parameters now and then")


def know_strategies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``ddp``, ``fsdp``, ``zero`` round and ``local_sgd``, ``async`` train differently."""
    for name in ("ddp", "fsdp", "zero"):
        monkeypatch.setitem(STRATEGIES, name, Averaging())
    for name in ("local_sgd", "async"):
        monkeypatch.setitem(STRATEGIES, name, Local())


def under(strategy: str, ranks: int, **settings: Value) -> dict[str, Value]:
    """A configuration of a strategy."""
    return {**ALONE, "strategy": strategy, "ranks": ranks, **settings}


def some_strategy_trials() -> list[Trial]:
    """One of every kind: measured, with more changed, dropped, changing what is learnt, failed, refused."""
    first = some_trials()[0].model_copy(update={"config": dict(ALONE)})
    return [
        first,
        a_trial(
            1, a_ratio(1.08, 1.02, 1.14, 24, 1), config=under("ddp", 2),
            ranks=RankUse(count=2, bytes_per_step=SENT, report={"buckets": 3}),
        ),
        a_trial(
            2, a_ratio(1.3, 1.24, 1.36, 24, 1), config=under("ddp", 2, num_workers=2),
            ranks=RankUse(count=2, bytes_per_step=SENT),
        ),
        a_trial(3, a_ratio(0.82, 0.79, 0.85, 8, 1), config=under("ddp", 4), state="pruned"),
        a_trial(
            4, a_ratio(1.35, 1.28, 1.42, 24, 1), config=under("local_sgd", 2),
            ranks=RankUse(count=2, bytes_per_step=SENT / 8, report={"averaged": 8}),
            losses=[2.31, 2.2, 2.1, None, 1.93], loss=Loss(first=2.31, last=1.93, steps=64),
        ),
        a_trial(5, config=under("fsdp", 2), state="failed", cause="hang_collective", message="rank 1: late"),
        a_trial(
            6, a_ratio(1.0, 0.98, 1.02), config=under("zero", 2), refused={"strategy": "no Adam to divide"},
        ),
    ]  # fmt: skip


def a_result_of_strategies(**fields: Any) -> ResultData:
    """A search on four CPUs that recommends nothing; any field of ``ResultData`` may be replaced."""
    full = a_result()
    values: dict[str, Any] = {
        "baseline": full.baseline.model_copy(
            update={
                "config": dict(ALONE), "losses": [2.3, 2.0, 1.87],
                "loss": Loss(first=2.3, last=1.87, steps=20),
            }
        ),
        "trials": some_strategy_trials(),
        "not_tried": [
            Untried(knob="strategy", value="pipeline", reason="the model is no Sequential"),
            Untried(knob="pin_memory", reason="no accelerator"),
        ],
    }  # fmt: skip
    return a_keep(**(values | fields))


def a_recommended_strategy() -> Recommendation:
    """``ddp`` with two ranks."""
    return Recommendation(
        verdict="change", config=under("ddp", 2), speedup=a_ratio(1.08, 1.03, 1.13, 40, 6), numerics="drifts",
        changes=[
            an_adopted(
                knob="strategy", before="single", to="ddp", semantics="rounding", numerics="within_noise",
                snippet="model = DistributedDataParallel(model)",
            ),
            an_adopted(knob="ranks", before=1, to=2, semantics="rounding"),
        ],
    )  # fmt: skip


def on_gpus(count: int) -> dict[str, Any]:
    """A machine with so many GPUs."""
    return a_result().machine | {"gpus": [{"name": "GPU", "memory_bytes": 2**34}] * count}
