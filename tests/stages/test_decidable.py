"""What is not tried on a served model, since the budget has no room for the answers that would decide."""

from types import SimpleNamespace
from typing import Any

import pytest
from builders import a_profile

from advisor.base.unit import Unit
from advisor.profiles.facts.profile import RunFacts
from advisor.stages.decidable import decidable_space
from advisor.tuners.knob import Value
from advisor.tuners.knobs import KNOBS
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.space.space import Space

CHOICES: dict[str, list[Value]] = {"amp": ["off", "bf16"], "channels_last": ["off", "on"]}
PRESENT = Configuration({name: values[0] for name, values in CHOICES.items()})


def decided(
    step_s: float, *, budget_s: float = 600.0, named: frozenset[str] = frozenset(), samples: float = 1.0
) -> Space:
    profile = a_profile(run=RunFacts(samples_per_step=samples))
    arena = SimpleNamespace(
        knobs=KNOBS, timed=True, step_s=step_s, starts=lambda *configs: 1, quad_s=8.0, sigma=0.01,
        steps=lambda: 2, how=lambda *of, **options: "live", queue_depth=lambda config: 0, present=PRESENT,
    )  # fmt: skip
    bench: Any = SimpleNamespace(
        settings=SimpleNamespace(
            unit=Unit.REQUEST, max_loss=0.01, budget_s=budget_s, min_gain=0.01, latency_limit_s=None,
            objective="requests",
        ),
        arena=arena, left_s=budget_s, spent_s=0.0,
        baseline=SimpleNamespace(startup_s=1.0, profile=profile),
        launcher=SimpleNamespace(target=SimpleNamespace(kind="script")),
    )  # fmt: skip
    return decidable_space(bench, Space(PRESENT, PRESENT, CHOICES, [], profile, named))


def test_quick_requests_are_tried_with_fewer_bits() -> None:
    space = decided(0.01)
    assert space.choices == CHOICES and not space.not_tried


def test_fewer_bits_of_slow_requests_wait_for_a_budget_that_decides() -> None:
    space = decided(0.4)
    assert space.choices == {"channels_last": ["off", "on"]} and space.present == PRESENT
    (left_out,) = space.not_tried
    assert left_out.knob == "amp"
    assert left_out.reason.startswith("whether it changes answers is told by 459 of them before and after")
    assert "which takes about 6 min; `--budget 17m` could" in left_out.reason
    assert decided(0.4, budget_s=17 * 60.0).choices == CHOICES


def test_a_batch_of_samples_is_so_many_answers() -> None:
    assert decided(0.4, samples=128.0).choices == CHOICES


@pytest.mark.parametrize("named", [frozenset({"amp"})])
def test_what_the_user_names_is_tried_all_the_same(named: frozenset[str]) -> None:
    assert decided(0.4, named=named).choices == CHOICES
