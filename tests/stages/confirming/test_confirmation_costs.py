"""What comparing answers takes of a budget at least."""

from types import SimpleNamespace

import pytest
from builders import a_profile

from advisor.base.unit import Unit
from advisor.stages.confirming.agreement import LEAST_S, TAKEN
from advisor.stages.confirming.confirmation_costs import ConfirmationCosts
from advisor.tuners.knobs import KNOBS
from advisor.tuners.search.costs import END_S


@pytest.mark.parametrize(("kind", "starts"), [("workload", 2), ("script", 3), ("module", 3)])
def test_comparing_answers_takes_the_starts_of_processes_and_little_more(kind: str, starts: int) -> None:
    bench = SimpleNamespace(
        settings=SimpleNamespace(unit=Unit.REQUEST, max_loss=0.01),
        baseline=SimpleNamespace(startup_s=8.0),
        launcher=SimpleNamespace(target=SimpleNamespace(kind=kind)),
        arena=SimpleNamespace(knobs=KNOBS),
    )
    costs = ConfirmationCosts(bench, {}, {})  # type: ignore[arg-type]  # nothing is measured
    assert costs.numerics_s == pytest.approx(starts * (8.0 + END_S) + TAKEN * LEAST_S)


def test_a_form_that_the_change_makes_counts_in_its_process_that_answers() -> None:
    bench = SimpleNamespace(
        settings=SimpleNamespace(unit=Unit.REQUEST, max_loss=0.01),
        baseline=SimpleNamespace(startup_s=8.0),
        launcher=SimpleNamespace(target=SimpleNamespace(kind="workload")),
        arena=SimpleNamespace(knobs=KNOBS),
    )
    made, plain = (
        ConfirmationCosts(bench, {"runtime": "torch"}, {"runtime": runtime}).numerics_s  # type: ignore[arg-type]  # nothing is measured
        for runtime in ("aot_inductor", "torch")
    )
    assert made - plain == pytest.approx(KNOBS["runtime"].makes_s({"runtime": "aot_inductor"}))


@pytest.mark.parametrize(("quantization", "answers_s"), [("int8_dynamic", 2 * 459 * 0.1), ("none", 0.0)])
def test_what_changes_answers_costs_the_requests_that_tell_by_how_much(
    quantization: str, answers_s: float
) -> None:
    bench = SimpleNamespace(
        settings=SimpleNamespace(unit=Unit.REQUEST, max_loss=0.01),
        baseline=SimpleNamespace(startup_s=0.0, profile=a_profile()),
        launcher=SimpleNamespace(target=SimpleNamespace(kind="workload")),
        arena=SimpleNamespace(knobs=KNOBS, step_s=0.1),
    )
    first = {"quantization": "none", "runtime": "torch", "execution": "eager"}
    costs = ConfirmationCosts(bench, first, first | {"quantization": quantization})  # type: ignore[arg-type]  # nothing is measured
    made_s = KNOBS["quantization"].makes_s({"quantization": quantization, "runtime": "torch"})
    least_s = 2 * END_S + (made_s if quantization != "none" else 0.0)
    assert costs.numerics_s == pytest.approx(least_s + max(TAKEN * LEAST_S, answers_s))


@pytest.mark.parametrize(
    ("gain", "benches", "pairs"), [(0.3, 8, 4), (0.1, 8, 6), (0.07, 8, 12), (0.01, 8, 12), (0.1, 2, 12)]
)
def test_the_first_wave_on_several_nodes_has_the_pairs_that_probably_confirm(
    gain: float, benches: int, pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ConfirmationCosts, "quads", 3)
    monkeypatch.setattr(ConfirmationCosts, "how", "live")
    bench = SimpleNamespace(crew=SimpleNamespace(size=benches), arena=SimpleNamespace(sigma=0.02))
    costs = ConfirmationCosts(bench, {}, {})  # type: ignore[arg-type]  # nothing is measured
    assert costs.enough(gain) == pairs
