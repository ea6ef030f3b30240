"""Statistics of interleaved timing."""

import json
import math
import random

import pytest

from advisor.tuners.comparing import looks, measure
from advisor.tuners.comparing.looks import LOOKS, confirm, decided, look
from advisor.tuners.comparing.measure import (
    beside_itself,
    between,
    median,
    moderated,
    planned_quads,
    quad_log_ratio,
    settled,
    slot_steps,
    within,
)
from advisor.tuners.trial.messages import Slot


def test_a_quad_cancels_linear_drift() -> None:
    drift = [1.00, 1.01, 1.02, 1.03]
    a1, b1, b2, a2 = drift  # equal arms on a machine that slows down steadily
    assert abs(quad_log_ratio(a1, b1, b2, a2)) < 1e-4


def test_a_faster_candidate_has_a_positive_log_ratio() -> None:
    assert quad_log_ratio(2.0, 1.0, 1.0, 2.0) == pytest.approx(math.log(2))


def test_work_per_step_counts_so_that_batches_of_different_size_compare() -> None:
    small, large = Slot((0.1,), work=32), Slot((0.2,), work=128)
    assert small.seconds_per_unit / large.seconds_per_unit == pytest.approx(2.0)


@pytest.mark.parametrize(("step_s", "steps"), [(0.001, 150), (0.03, 5), (0.3, 2), (3.0, 1)])
def test_a_slot_is_about_five_steps_longer_for_short_ones_and_one_for_long_ones(
    step_s: float, steps: int
) -> None:
    assert slot_steps(step_s) == steps


def test_a_slot_holds_whole_periods_of_several_optimizers() -> None:
    assert slot_steps(0.03, period=3) == 6


def test_warm_up_goes_on_while_steps_get_faster() -> None:
    assert not settled([[1.0, 1.0, 1.0]])
    assert not settled([[1.0, 1.0, 1.0], [0.5, 0.5, 0.5]])
    assert settled([[1.0, 1.0, 1.0], [0.5, 0.5, 0.5], [0.51, 0.5, 0.5]])


@pytest.mark.parametrize("count", [8, 40])
def test_an_interval_within_one_process_covers_the_truth(count: int) -> None:
    draw = random.Random(0)
    hits = 0
    for _ in range(200):
        estimate = within([draw.gauss(0.1, 0.05) for _ in range(count)], 0.95)
        hits += estimate.low <= 0.1 <= estimate.high
    assert 180 <= hits <= 200


@pytest.mark.parametrize("count", [1, 2, 5, 12])
def test_an_interval_of_a_program_over_itself_holds_one_with_few_quads_too(count: int) -> None:
    draw, hits = random.Random(0), 0
    widths: dict[str, list[float]] = {"itself": [], "any": []}
    for _ in range(300):
        values = [draw.gauss(0, 0.05) for _ in range(count)]
        own, other = beside_itself(values, 0.95), within(values, 0.95)
        hits += own.low <= 0 <= own.high
        widths["itself"].append(own.high - own.low)
        widths["any"].append(other.high - other.low)
    assert 276 <= hits <= 300
    assert count > 2 or median(widths["any"]) > 2 * median(widths["itself"])


def test_the_bias_of_processes_is_inside_the_interval_between_them() -> None:
    draw = random.Random(1)
    hits = 0
    for _ in range(300):
        biases = [draw.gauss(0, 0.03) for _ in range(6)]
        estimate = between([[draw.gauss(bias, 0.005) for _ in range(5)] for bias in biases], 0.95)
        hits += estimate.low <= 0 <= estimate.high
    assert 274 <= hits <= 296  # 91 to 99 % of 300 at a nominal 95 %


@pytest.mark.parametrize(("runs", "most"), [(80, 0), pytest.param(400, 2, marks=pytest.mark.long)])
def test_noise_is_hardly_ever_confirmed(runs: int, most: int) -> None:
    draw = random.Random(2)
    confirmed = 0
    for _ in range(runs):
        decision, _ = confirm(
            lambda index: [draw.gauss(0, 0.05) for _ in range(3)], min_gain=0.02, level=0.99
        )
        confirmed += decision.verdict == "confirmed"
    assert confirmed <= most


def test_a_large_gain_is_confirmed_at_the_first_look() -> None:
    draw = random.Random(3)
    decision, collected = confirm(
        lambda index: [draw.gauss(0.5, 0.02) for _ in range(3)], min_gain=0.02, level=0.99
    )
    assert decision.verdict == "confirmed"
    assert len(collected) == LOOKS[0]


def test_a_gain_seen_in_one_order_of_roles_only_is_not_confirmed() -> None:
    instances = [[0.30], [-0.01], [0.30], [-0.01], [0.30], [-0.01]]
    assert look(instances, 0.02, 0.99, final=True).verdict == "rejected"


def test_without_the_instances_of_the_first_look_nothing_is_confirmed() -> None:
    decision, collected = confirm(lambda index: [0.5] if index < 1 else None, min_gain=0.02, level=0.99)
    assert (decision.verdict, len(collected)) == ("rejected", 1)


def test_the_smallest_detectable_difference_follows_the_planning_rule() -> None:
    delta = measure.smallest_detectable(0.025, 25)
    assert 0.015 < delta < 0.025  # about 2 % from about 25 quads at a spread of 2.5 %


def test_the_planning_rule_gives_the_published_numbers() -> None:
    assert 20 <= planned_quads(0.025, 0.02, level=0.99) <= 30
    assert 900 <= planned_quads(0.17, 0.02, level=0.99) <= 1300


def test_more_noise_needs_more_quads_and_larger_effects_fewer() -> None:
    assert planned_quads(0.05, 0.02) > planned_quads(0.025, 0.02) > planned_quads(0.025, 0.1)


UNSURE = [[0.04 + 0.04 * (index % 4)] for index in range(7)]  # the look at six was not sure


def test_a_confirmation_goes_on_to_its_next_planned_look_with_the_processes_that_are_missing() -> None:
    launched: list[int] = []

    def instance(index: int) -> list[float]:
        launched.append(index)
        return [0.1]

    decision, collected = confirm(instance, min_gain=0.02, level=0.99, earlier=UNSURE)
    assert (decision.verdict, len(collected), launched) == ("confirmed", 8, [7])
    assert decision.estimate.instances == 8


def test_a_confirmation_that_was_made_needs_no_further_process() -> None:
    """Also where processes came after the look that made it."""
    earlier = [[0.1], [0.11], [0.1], [0.09], [0.1], [0.1], [0.3], [-0.2]]
    decision, collected = confirm(lambda index: None, min_gain=0.02, level=0.99, earlier=earlier)
    assert decision.verdict == "confirmed" and decision.estimate.instances == 4
    assert collected == earlier
    assert decided(earlier, min_gain=0.02, level=0.99) == decision


def test_between_planned_looks_nothing_is_decided() -> None:
    assert decided(UNSURE, min_gain=0.02, level=0.99) is None
    decision, collected = confirm(lambda index: None, min_gain=0.02, level=0.99, earlier=UNSURE)
    assert (decision.verdict, collected) == ("rejected", UNSURE)


def test_stopping_and_going_on_as_one_likes_decides_as_one_confirmation_would() -> None:
    generator = random.Random(2)
    for _ in range(25):
        instances = [[generator.gauss(0.03, 0.03)] for _ in range(LOOKS[-1])]
        whole, _ = confirm(instances.__getitem__, min_gain=0.0, level=0.99)
        parts: list[list[float]] = []
        while decided(parts, min_gain=0.0, level=0.99) is None:
            stop = len(parts) + generator.randint(1, 4)
            part, parts = confirm(
                lambda index, stop=stop, of=instances: of[index] if index < stop else None,  # type: ignore[misc]
                min_gain=0.0, level=0.99, earlier=parts,
            )  # fmt: skip
        assert part == whole


def test_what_more_pairs_would_hardly_confirm_takes_none_of_them() -> None:
    """Pairs of 0.95x, whose interval would hold 1.02x to the end."""
    draw = random.Random(5)
    decision, collected = confirm(
        lambda index: [draw.gauss(-0.05, 0.1) for _ in range(3)], min_gain=0.02, level=0.99
    )
    assert decision.verdict == "rejected" and decision.futile
    assert decision.estimate.high > math.log1p(0.02) and len(collected) <= 6


@pytest.mark.parametrize("gain", [0.05, 0.08, 0.15])
def test_ending_early_loses_few_gains_and_saves_pairs(gain: float, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(seed: int, of: float) -> tuple[bool, int]:
        draw = random.Random(seed)
        pairs = [[draw.gauss(draw.gauss(of, 0.03), 0.02) for _ in range(3)] for _ in range(LOOKS[-1])]
        decision, collected = confirm(pairs.__getitem__, min_gain=0.02, level=0.99)
        return decision.verdict == "confirmed", len(collected)

    early, nothing = [run(seed, gain) for seed in range(150)], [run(seed, 0.0) for seed in range(150)]
    monkeypatch.setattr(looks, "FUTILE", 1e-12)
    whole, idle = [run(seed, gain) for seed in range(150)], [run(seed, 0.0) for seed in range(150)]
    assert sum(found for found, _ in early) >= sum(found for found, _ in whole) - 6  # of 150
    assert 1.3 * sum(pairs for _, pairs in nothing) < sum(pairs for _, pairs in idle)


def test_a_gain_is_confirmed_later_where_something_else_wants_more_processes() -> None:
    wants = iter([True, True, False])
    decision, collected = confirm(
        lambda index: [0.5, 0.51], min_gain=0.02, level=0.99, wanting=lambda: next(wants)
    )
    assert (decision.verdict, len(collected)) == ("confirmed", LOOKS[2])
    decision, collected = confirm(lambda index: [0.5, 0.51], min_gain=0.02, level=0.99, wanting=lambda: True)
    assert (decision.verdict, len(collected)) == ("confirmed", LOOKS[-1])


@pytest.mark.parametrize("there", [3, 4])
def test_what_was_confirmed_stands_where_no_more_processes_are_to_be_had(there: int) -> None:
    decision, collected = confirm(
        lambda index: [0.5, 0.51] if index < there else None, min_gain=0.02, level=0.99, wanting=lambda: True
    )
    assert (decision.verdict, len(collected)) == ("confirmed", there)


def test_a_later_look_may_take_a_gain_back() -> None:
    pairs = [[0.5, 0.51], [0.5, 0.51], *[[-0.6, -0.5]] * 10]
    decision, _ = confirm(pairs.__getitem__, min_gain=0.02, level=0.99, wanting=lambda: True)
    assert decision.verdict == "rejected"


def test_the_last_look_always_decides() -> None:
    noisy = [[0.03 * (-1) ** index + 0.02] for index in range(LOOKS[-1])]
    found = decided(noisy, min_gain=0.02, level=0.99)
    assert found is not None and found.verdict == "rejected"


def test_two_pairs_have_an_interval_that_covers_over_programs_as_they_were_recorded() -> None:
    """Spreads are drawn as they were learnt; a t-interval of two is many times as wide."""
    generator = random.Random(4)
    prior = json.loads(measure.SPREAD.read_text())["ways"][""]["plain"]
    held = 0
    for _ in range(2000):
        chi_square = generator.gammavariate(prior["freedom"] / 2, 2.0)
        spread = math.sqrt(prior["freedom"] * prior["variance"] / chi_square)
        shown = moderated([[generator.gauss(0.1, spread)] for _ in range(2)], 0.95)
        held += shown.low <= 0.1 <= shown.high
    assert 0.93 <= held / 2000 <= 0.97


def test_what_a_study_saw_outweighs_what_was_recorded() -> None:
    calm, wild = (
        [[0.1 + 0.001 * (-1) ** at] for at in range(12)],
        [[0.1 + 0.3 * (-1) ** at] for at in range(12)],
    )
    narrow, wide = moderated(calm, 0.99), moderated(wild, 0.99)
    assert narrow.high - narrow.low < 0.1 < 0.4 < wide.high - wide.low


def test_a_spread_within_pairs_widens_two_that_agree() -> None:
    quiet, loud = [[0.29, 0.30, 0.31]] * 2, [[0.0, 0.30, 0.60]] * 2
    assert moderated(loud, 0.99).low < 0 < moderated(quiet, 0.99).low


def test_the_shares_of_the_looks_spend_the_level_once() -> None:
    assert len(looks.SHARES) == len(LOOKS) and sum(looks.SHARES) == 1
