"""The numerics gate."""

import pytest

from advisor.tuners.comparing.gate import Reference, judge, own_draws, widest
from advisor.tuners.comparing.roundings import NUDGES, Nudged
from advisor.tuners.knob import Semantics
from advisor.tuners.supervision.failures import Failure, TrialFailed

LOSSES = (2.30, 2.20, 2.11, 2.05)


def a_reference(losses: tuple[float, ...] = LOSSES, spread: float = 0.05) -> Reference:
    seeds = tuple(tuple(loss * (1 + sign * spread) for loss in losses) for sign in (1, -1))
    return Reference(losses, losses, seeds)


def scaled(factor: float) -> tuple[float, ...]:
    return tuple(loss * factor for loss in LOSSES)


@pytest.mark.parametrize(
    ("semantics", "candidate", "verdict"),
    [
        (Semantics.EXACT, LOSSES, "identical"),
        (Semantics.EXACT, scaled(1 + 1e-5), "drifts"),
        (Semantics.ROUNDING, scaled(1 + 1e-5), "within_noise"),
        (Semantics.ROUNDING, scaled(1 + 1e-3), "drifts"),
        (Semantics.PRECISION, scaled(1 + 3e-3), "within_noise"),
        (Semantics.PRECISION, (2.30, 2.20, 2.4, 3.9), "drifts"),
        (Semantics.PRECISION, (2.30, 2.2, float("nan"), float("nan")), "drifts"),
        (Semantics.TRAINING, scaled(1.2), "not_checked"),
    ],
)
def test_each_semantics_has_its_bound(
    semantics: Semantics, candidate: tuple[float, ...], verdict: str
) -> None:
    assert judge(a_reference(), candidate, semantics, own_draws=False).verdict == verdict


def test_the_yardstick_is_told_in_plain_words() -> None:
    reason = judge(a_reference(), LOSSES, Semantics.EXACT, own_draws=False).reason
    assert reason.endswith("differ by 0 relative (run twice unchanged: 0; another seed: 0.05)")


def test_a_change_that_draws_other_random_numbers_is_judged_by_seed_noise() -> None:
    candidate = scaled(1.02)
    alike = judge(a_reference(), candidate, Semantics.ROUNDING, own_draws=True)
    assert alike.verdict == "within_noise" and "of the same distribution" in alike.reason
    assert judge(a_reference(), candidate, Semantics.ROUNDING, own_draws=False).verdict == "drifts"


def test_a_program_without_visible_losses_is_not_checked() -> None:
    verdict = judge(Reference((), (), ()), (), Semantics.EXACT, own_draws=False)
    assert verdict.verdict == "not_checked"
    assert "no scalar loss" in verdict.reason


def test_a_baseline_that_does_not_repeat_widens_the_bound() -> None:
    noisy = Reference(LOSSES, scaled(1.001), (scaled(1.05), scaled(0.95)))
    assert judge(noisy, scaled(1.0005), Semantics.ROUNDING, own_draws=False).verdict == "within_noise"


def test_dropout_masks_follow_the_memory_layout() -> None:
    assert own_draws(["channels_last"], has_dropout=True, loader_is_live=False)
    assert not own_draws(["channels_last"], has_dropout=False, loader_is_live=False)


def test_workers_move_the_draws_of_a_live_loader() -> None:
    assert own_draws(["num_workers"], has_dropout=False, loader_is_live=True)
    assert not own_draws(["num_workers"], has_dropout=False, loader_is_live=False)


def test_the_widest_semantics_of_several_changes_decides() -> None:
    assert widest([Semantics.EXACT, Semantics.PRECISION, Semantics.ROUNDING]) is Semantics.PRECISION


def test_gradients_of_the_wrong_size_are_caught_though_the_losses_agree() -> None:
    noisy = Reference(LOSSES, LOSSES, (scaled(1.05),), norms=((1.0,), (1.0,), (1.2,)))
    judged = judge(noisy, LOSSES, Semantics.PRECISION, own_draws=False, norms=(2.0,))
    assert judged.verdict == "drifts" and "gradients" in judged.reason
    assert judge(noisy, LOSSES, Semantics.EXACT, own_draws=False, norms=(1.0,)).verdict == "identical"
    assert judge(noisy, LOSSES, Semantics.PRECISION, own_draws=False, norms=(1.03,)).verdict != "drifts"


def test_a_loss_that_is_one_percent_too_large_is_caught_in_every_class() -> None:
    for semantics in (Semantics.EXACT, Semantics.ROUNDING, Semantics.PRECISION):
        assert judge(a_reference(), scaled(1.01), semantics, own_draws=False).verdict == "drifts"


GROWN = tuple(loss * (1 + 2e-6 * 10**step) for step, loss in enumerate(LOSSES))
"""The first loss as it should be, later ones further and further off: 6e-4 in the mean."""


def grown(factor: float) -> tuple[float, ...]:
    return tuple(a + factor * (b - a) for a, b in zip(LOSSES, GROWN, strict=True))


class Runs:
    """Recorded losses of nudged runs; counts how many were asked for."""

    def __init__(self, *factors: float) -> None:
        self._factors = factors
        self.made = 0

    def __call__(self, number: int) -> tuple[float, ...]:
        self.made += 1
        return grown(self._factors[number - 1])


def test_a_rounding_that_grows_as_a_nudge_of_the_weights_does_is_no_drift() -> None:
    assert judge(a_reference(), GROWN, Semantics.ROUNDING, own_draws=False).verdict == "drifts"
    runs = Runs(0.6)
    judged = judge(a_reference(), GROWN, Semantics.ROUNDING, own_draws=False, nudged=Nudged(runs))
    assert judged.verdict == "within_noise" and runs.made == 1
    assert "up to step 3 by 0.0002 at most, weights moved by a few roundings by 0.0001" in judged.reason


@pytest.mark.parametrize(
    ("candidate", "semantics", "draws"),
    [
        (scaled(1 + 4e-6), Semantics.ROUNDING, False),
        (GROWN, Semantics.EXACT, False),
        (tuple(loss * 2 for loss in GROWN), Semantics.ROUNDING, True),
        (scaled(1.01), Semantics.ROUNDING, False),
        (tuple(loss * 2 for loss in GROWN), Semantics.PRECISION, False),
    ],
)
def test_no_nudged_run_is_made_where_it_could_not_change_the_verdict(
    candidate: tuple[float, ...], semantics: Semantics, draws: bool
) -> None:
    runs = Runs(100, 100, 100)
    plain = judge(a_reference(), candidate, semantics, own_draws=draws)
    assert judge(a_reference(), candidate, semantics, own_draws=draws, nudged=Nudged(runs)) == plain
    assert runs.made == 0


def test_wrong_first_gradients_drift_however_far_roundings_grow() -> None:
    known = Reference(LOSSES, LOSSES, (scaled(1.05),), norms=((1.0,), (1.0,), (1.2,)))
    nudged = Nudged(Runs(100))
    judged = judge(known, GROWN, Semantics.ROUNDING, own_draws=False, norms=(1.01,), nudged=nudged)
    assert judged.verdict == "drifts" and "gradients" in judged.reason and not nudged.losses


def test_further_nudges_are_run_until_one_shows_the_growth_and_all_are_kept() -> None:
    runs = Runs(0.001, 0.6, 100)
    nudged = Nudged(runs)
    for _ in range(2):
        judged = judge(a_reference(), GROWN, Semantics.ROUNDING, own_draws=False, nudged=nudged)
        assert judged.verdict == "within_noise" and runs.made == 2


@pytest.mark.parametrize(
    ("factor", "said"),
    [
        (0.05, "that of step 2 by 2e-05, weights moved by a few roundings by 1e-06"),
        (0.3, "; weights moved by a few roundings by 0.0002"),
    ],
    ids=["a step", "the mean"],
)
def test_what_grows_more_than_any_nudge_drifts(factor: float, said: str) -> None:
    runs = Runs(*[factor] * NUDGES)
    judged = judge(a_reference(), GROWN, Semantics.ROUNDING, own_draws=False, nudged=Nudged(runs))
    assert judged.verdict == "drifts" and runs.made == NUDGES
    assert judged.reason.endswith(said)


def test_a_run_that_turns_roundings_into_another_training_at_once_excuses_nothing() -> None:
    wild = Nudged(lambda number: scaled(1.5))
    for apart in (GROWN, grown(10)):
        judged = judge(a_reference(), apart, Semantics.ROUNDING, own_draws=False, nudged=wild)
        assert judged.verdict == "drifts" and "could not be told from roundings" in judged.reason


def test_a_nudged_run_that_is_not_there_leaves_the_verdict_and_says_so() -> None:
    def fails(number: int) -> tuple[float, ...]:
        raise TrialFailed(Failure("user_error", "ValueError: no such file"))

    late = Nudged(Runs(0.6), affordable=lambda: False)
    for nudged, said in ((Nudged(fails), "ValueError: no such file"), (late, "no time was left")):
        judged = judge(a_reference(), GROWN, Semantics.ROUNDING, own_draws=False, nudged=nudged)
        assert judged.verdict == "drifts" and judged.reason.endswith(said)


def test_a_nudged_run_that_failed_is_tried_again_for_the_next_change() -> None:
    runs, tries = Runs(*[0.05] * NUDGES), list[int]()

    def unsteady(number: int) -> tuple[float, ...]:
        tries.append(number)
        if len(tries) == 1:
            raise TrialFailed(Failure("timeout", "no answer"))
        return runs(number)

    nudged = Nudged(unsteady)
    first, second = (
        judge(a_reference(), GROWN, Semantics.ROUNDING, own_draws=False, nudged=nudged) for _ in range(2)
    )
    assert first.reason.endswith("could not be seen: no answer")
    assert "that of step 2" in second.reason and runs.made == NUDGES


# Losses of examples/resnet18_fashion.py, recorded.
EXAMPLE = (2.2795186, 2.3839128, 1.9263595, 1.1755803, 0.6748172, 0.7177927, 0.5861390, 0.2928087)
NUDGED_RUNS = (
    (2.2795191, 2.3841047, 1.9274127, 1.1531031, 0.6479485, 0.7102584, 0.5335023, 0.2604452),
    (2.2795188, 2.3840072, 1.9238025, 1.1761472, 0.6872363, 0.7039701, 0.5580552, 0.2773062),
    (2.2795184, 2.3841901, 1.9238821, 1.2248303, 0.7150364, 0.7198350, 0.5540077, 0.2774341),
)
OTHER_SEEDS = (
    (2.40251, 1.99498, 2.09563, 3.0105, 1.96563, 0.803141, 0.585927, 0.307039),
    (2.38496, 2.33347, 2.00484, 1.94897, 1.4995, 1.06637, 0.641082, 0.303459),
)
LAYOUT = (2.2795184, 2.3839056, 1.9161866, 1.1691532, 0.6879095, 0.7102618, 0.5287240, 0.2551910)
WITHOUT_ONEDNN = (2.2795191, 2.3838668, 1.9316152, 1.1911383, 0.6921104, 0.7107193, 0.5605683, 0.2681295)
FASTER = (2.2795186, 2.3909569, 1.9444044, 1.2212012, 0.7319111, 0.7871331, 0.5879536, 0.2933473)


@pytest.mark.parametrize("candidate", [LAYOUT, WITHOUT_ONEDNN], ids=["channels_last", "mkldnn off"])
def test_a_chaotic_run_is_judged_by_its_first_steps(candidate: tuple[float, ...]) -> None:
    known = Reference(EXAMPLE, EXAMPLE, OTHER_SEEDS)
    nudged = Nudged(lambda number: NUDGED_RUNS[number - 1])
    judged = judge(known, candidate, Semantics.ROUNDING, own_draws=False, nudged=nudged)
    assert judged.verdict == "within_noise"
    assert "it grows from roundings: up to step 3 by 0.00" in judged.reason
    assert judged.reason.endswith("after that, two runs of the original differ as much (0.034 in the mean)")


def test_a_mistake_in_a_chaotic_run_is_seen_in_its_first_steps() -> None:
    """A learning rate that is 1 % too high: from the fourth step on no further off than nudged runs are."""
    known = Reference(EXAMPLE, EXAMPLE, OTHER_SEEDS)
    nudged = Nudged(lambda number: NUDGED_RUNS[number - 1])
    judged = judge(known, FASTER, Semantics.ROUNDING, own_draws=False, nudged=nudged)
    assert judged.verdict == "drifts" and "that of step 2 by 0.003" in judged.reason


EARLY = (2.30, 2.20 * (1 + 6e-5), 2.11 * (1 + 4e-5), 2.05)
"""Off by less than roundings may be in general, and by more than they are in these runs."""


def test_a_mistake_below_the_fixed_bound_is_told_where_roundings_do_not_grow() -> None:
    runs = Runs(*[0.001] * NUDGES)
    assert judge(a_reference(), EARLY, Semantics.ROUNDING, own_draws=False).verdict == "within_noise"
    judged = judge(a_reference(), EARLY, Semantics.ROUNDING, own_draws=False, nudged=Nudged(runs))
    assert judged.verdict == "drifts" and "that of step 2 by 6e-05" in judged.reason


def test_below_the_fixed_bound_nothing_is_refused_for_want_of_nudged_runs() -> None:
    late = Nudged(Runs(), affordable=lambda: False)
    judged = judge(a_reference(), EARLY, Semantics.ROUNDING, own_draws=False, nudged=late)
    assert judged == judge(a_reference(), EARLY, Semantics.ROUNDING, own_draws=False)


def test_weights_that_cannot_be_moved_leave_the_fixed_bound() -> None:
    still = Nudged(lambda number: LOSSES)
    assert judge(a_reference(), EARLY, Semantics.ROUNDING, own_draws=False, nudged=still).verdict != "drifts"
    assert judge(a_reference(), GROWN, Semantics.ROUNDING, own_draws=False, nudged=still).verdict == "drifts"


def test_a_nudged_run_that_ends_in_nan_excuses_no_early_difference() -> None:
    broken = Nudged(lambda number: (*grown(0.001)[:3], float("nan")))
    late = (*grown(0.001)[:3], 2.5)
    for apart, verdict in ((late, "within_noise"), (EARLY, "drifts")):
        judged = judge(a_reference(), apart, Semantics.ROUNDING, own_draws=False, nudged=broken)
        assert judged.verdict == verdict


def test_a_baseline_that_does_not_repeat_shows_by_itself_how_far_roundings_grow() -> None:
    runs = Runs()
    known = Reference(LOSSES, grown(0.6), (scaled(1.05), scaled(0.95)))
    judged = judge(known, GROWN, Semantics.ROUNDING, own_draws=False, nudged=Nudged(runs))
    assert judged.verdict == "within_noise" and runs.made == 0
