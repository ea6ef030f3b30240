"""What is measured stays measured; the rest follows programs of known physics, with an interval."""

import math
import random

import pytest

from advisor.planning.effects.loading import Supply
from advisor.planning.growth import Growth, crowding, grown, reference, situation
from advisor.planning.physics import Physics
from advisor.planning.places import Place, Point
from advisor.planning.predicting import Predictor
from advisor.planning.priors import Priors

PRIORS = Priors.stored()


def flat(*counts: tuple[int, int], step_ms: float = 100.0) -> list[Point]:
    return [Point(Place(ranks, nodes), step_ms) for ranks, nodes in counts]


def a_step(place: Place, scatter: random.Random | None = None) -> tuple[float, float]:
    """Step and exposed communication of a made program: 3 ms a sample, a large model, slow nodes."""
    computing = 10 + 3 * place.local_batch
    ring = 2 * (place.ranks - 1) / place.ranks
    network = {1: 30.0, 2: 240.0}.get(place.nodes, 270.0 * 1.05 ** math.log2(place.nodes)) * ring
    exposed = max(0.0, network - 0.4 * computing) if place.ranks > 1 else 0.0
    off = scatter.gauss(1, 0.02) if scatter else 1.0
    return (computing + exposed) * off, exposed * off


def made(*places: Place) -> list[Point]:
    scatter = random.Random(0)
    return [Point(place, *a_step(place, scatter)) for place in places]


SMALL = [
    Place(ranks, nodes, batch)
    for batch in (16, 32, 64)
    for ranks, nodes in ((1, 1), (2, 1), (4, 1), (2, 2), (4, 2), (3, 3), (4, 4))
]


def test_what_was_measured_stays_measured() -> None:
    predicted = Predictor([*flat((1, 1)), Point(Place(2, 1), 130), Point(Place(2, 1), 140)], PRIORS).at(
        Place(2, 1)
    )
    assert predicted.measured
    assert predicted.step_ms.estimate == 135
    assert 130 <= predicted.step_ms.low < 135 < predicted.step_ms.high <= 140


def test_a_program_that_scales_perfectly_is_predicted_to_go_on() -> None:
    predicted = Predictor(flat((8, 1), (16, 2), (32, 4), (64, 8)), PRIORS).at(Place(256, 32))
    assert predicted.step_ms.estimate == pytest.approx(100, rel=0.05)
    assert predicted.step_ms.low < 100 < predicted.step_ms.high


def test_intervals_are_skewed_to_the_slow_side() -> None:
    step = Predictor(flat((1, 1), (2, 1), (4, 1)), PRIORS).at(Place(32, 4)).step_ms
    assert step.high / step.estimate > step.estimate / step.low > 1


@pytest.mark.parametrize("place", [Place(8, 4, 32), Place(16, 4, 32), Place(16, 16, 64), Place(12, 3, 16)])
def test_a_program_of_known_physics_is_followed_to_more_ranks(place: Place) -> None:
    step, _ = a_step(place)
    predicted = Predictor(made(*SMALL), PRIORS).at(place)
    assert predicted.step_ms.estimate == pytest.approx(step, rel=0.2)


def test_a_local_batch_between_measured_ones_is_followed() -> None:
    step, _ = a_step(Place(4, 4, 48))
    assert Predictor(made(*SMALL), PRIORS).at(Place(4, 4, 48)).step_ms.estimate == pytest.approx(
        step, rel=0.1
    )


def test_parts_of_a_step_add_up_to_it() -> None:
    predicted = Predictor(made(*SMALL), PRIORS).at(Place(16, 4, 32))
    assert predicted.parts.step_ms == pytest.approx(predicted.step_ms.estimate)
    assert predicted.parts.communication_ms > predicted.parts.computing_ms


def test_two_nodes_do_not_start_a_slope() -> None:
    slow_pair = [*flat((8, 1), (32, 4), (64, 8)), Point(Place(16, 2), 200)]
    step = grown(slow_pair, Place(256, 32), Growth(exponent=0.0, spread=0.02))
    assert step == pytest.approx(100)


def test_the_trivial_extrapolation_grows_as_other_programs_grew() -> None:
    assert grown(flat((8, 2)), Place(64, 8), Growth(exponent=1 / 3, spread=0.1)) == pytest.approx(200)


def test_own_growth_outweighs_that_of_others() -> None:
    points = [Point(Place(8 * k, k), 100 * k**0.5) for k in (4, 8, 16)]
    assert grown(points, Place(512, 64), Growth(0.0, 0.1)) == pytest.approx(800, rel=0.02)


def test_the_reference_is_of_the_same_kind_and_the_nearest_batch() -> None:
    points = [Point(Place(8, 1, 32), 1), Point(Place(4, 2, 32), 2), Point(Place(16, 2, 64), 3)]
    assert reference(points, Place(32, 4, 32)).step_ms == 2
    assert reference(points, Place(32, 4, 64)).step_ms == 3
    assert reference(points, Place(4, 1, 64)).step_ms == 1


def test_of_as_many_ranks_the_reference_has_the_nearest_nodes() -> None:
    points = [Point(Place(4, 2), 1), Point(Place(4, 4), 2)]
    assert reference(points, Place(8, 2)).step_ms == 1
    assert reference(points, Place(8, 8)).step_ms == 2


def test_a_place_has_its_situation() -> None:
    assert situation(flat((2, 1), (4, 1)), Place(8, 1)) == "one_node"
    assert situation(flat((4, 1)), Place(8, 1)) == "one_count"
    assert situation(flat((4, 1)), Place(8, 2)) == "leaving"
    assert situation(flat((4, 1)), Place(8, 2), named=True) == "leaving_named"
    assert situation(flat((4, 1), (8, 2)), Place(16, 4)) == "more_nodes_once"
    assert situation(flat((4, 1), (8, 2), (16, 4)), Place(32, 8)) == "more_nodes"
    assert situation(flat((8, 2), (16, 4)), Place(8, 1)) == "leaving"  # the other way


@pytest.mark.parametrize("place", [Place(1, 1), Place(8, 1)])
def test_towards_fewer_ranks_intervals_are_skewed_to_the_fast_side(place: Place) -> None:
    """What grew more than others' steps do was shorter before."""
    predicted = Predictor(flat((32, 4), (64, 8)), PRIORS).at(place)
    step = predicted.step_ms
    assert step.estimate / step.low > step.high / step.estimate > 1
    assert predicted.record is None  # the back-test asks for more ranks alone


def test_of_several_rows_of_a_count_the_middle_one_starts_what_follows() -> None:
    points = [*flat((1, 1)), *(Point(Place(2, 1), step) for step in (300, 104, 103))]
    assert Predictor(points, PRIORS).at(Place(8, 1)).trivial_ms == pytest.approx(104, rel=0.1)


def test_a_slow_named_network_costs_more_than_a_fast_one() -> None:
    points = [Point(Place(ranks, 1), 100, step_bytes=1e9) for ranks in (1, 2, 4)]
    slow, fast = (
        Predictor(points, PRIORS, bytes_per_s).at(Place(32, 8)).step_ms for bytes_per_s in (1.25e9, 100e9)
    )
    assert slow.estimate > 1.3 * fast.estimate


def test_every_prediction_says_how_such_ones_did() -> None:
    record = Predictor(flat((8, 1), (16, 2), (32, 4)), PRIORS).at(Place(128, 16)).record
    assert record is not None
    assert record.series > 10 and 0 < record.mean_error < 0.2


def test_a_hundred_points_are_fitted_at_once() -> None:
    places = [
        Place(k * nodes, nodes, batch)
        for k in (1, 2, 4)
        for nodes in (1, 2, 3, 4)
        for batch in range(8, 72, 8)
    ]
    assert Physics(made(*places), PRIORS.physics).parts(Place(8, 2, 8)).computing_ms == pytest.approx(
        34, rel=0.2
    )


def test_one_count_alone_leaves_more_open_than_two() -> None:
    def width(*places: tuple[int, int]) -> float:
        step = Predictor(flat(*places), Priors.stored()).at(Place(8, 1)).step_ms
        return step.high / step.low

    assert width((2, 1)) > 1.2 * width((1, 1), (2, 1))


@pytest.mark.parametrize("place", [Place(8, 1), Place(32, 8)])
def test_one_count_does_not_exclude_perfect_scaling(place: Place) -> None:
    assert Predictor(flat((4, 1)), Priors.stored()).at(place).step_ms.low <= 100


def test_a_smaller_batch_may_take_time_in_proportion() -> None:
    """GPT of 175B with the same global batch on 256 and 1,024 GPUs: 32.0 and 8.9 s (Jiang, 2024)."""
    points = [Point(Place(256, 32, 3), 32_000), Point(Place(512, 64, 1.5), 16_500)]
    for given in (points[:1], points):
        step = Predictor(given, Priors.stored()).at(Place(1024, 128, 0.75)).step_ms
        assert step.low < 8_900 < step.high


def test_towards_one_node_the_last_measured_step_counts_most() -> None:
    """Steps that grow with nodes show communication; how much of it one node has was not measured."""
    measured = made(Place(16, 4), Place(64, 16), Place(128, 32))
    points, one = [Point(point.place, point.step_ms) for point in measured], Place(4, 1)
    predicted, physics = Predictor(points, PRIORS).at(one), Physics(points, PRIORS.physics).parts(one).step_ms
    off = math.log(predicted.step_ms.estimate / predicted.trivial_ms)
    assert 0 < off / math.log(physics / predicted.trivial_ms) < 0.3


def test_ranks_that_share_a_loader_get_no_faster() -> None:
    """Measured at one and two: twice the ranks took twice as long, and four would be no faster than two."""
    predictor = Predictor([Point(Place(1, 1, 32), 100), Point(Place(2, 1, 32), 200)], PRIORS)
    steps = [predictor.at(Place(ranks, 1, 32)) for ranks in (2, 4, 8)]
    assert [step.step_ms.estimate for step in steps] == pytest.approx([200, 400, 800])
    assert steps[1].crowded and steps[1].step_ms.low <= 200 and not steps[0].crowded
    assert predictor.at(Place(16, 2, 32)).step_ms.estimate >= 800  # eight on each node


def test_a_step_that_grows_little_is_not_crowded() -> None:
    points = [Point(Place(1, 1, 32), 100), Point(Place(2, 1, 32), 130)]
    assert crowding(points, points[1]) == 0
    assert not Predictor(points, PRIORS).at(Place(8, 1, 32)).crowded


def test_noise_across_nodes_does_not_make_steps_shorter() -> None:
    points = [Point(Place(8 * nodes, nodes), step) for nodes, step in ((1, 115.0), (4, 116.0), (8, 115.5))]
    trivial = [Predictor(points, PRIORS).at(Place(8 * nodes, nodes)).trivial_ms for nodes in (16, 64, 512)]
    assert min(trivial) >= 115.5


def test_a_smaller_batch_takes_no_longer_than_a_larger_one_did_there() -> None:
    """Two ranks that share a slow link say little of one alone, which was measured with twice the batch."""
    points = [Point(Place(1, 1, 64), 40), Point(Place(2, 1, 32), 170)]
    predictor = Predictor(points, PRIORS)
    half, double = (predictor.at(Place(1, 1, batch)).step_ms for batch in (32, 128))
    assert half.low < half.estimate <= 40 <= double.estimate


def test_where_batches_contradict_each_other_neither_bounds() -> None:
    points = [Point(Place(1, 1, 32), 50), Point(Place(1, 1, 128), 40), Point(Place(2, 1, 64), 60)]
    assert Predictor(points, PRIORS).at(Place(1, 1, 64)).step_ms.estimate > 0


def test_steps_that_waited_for_data_may_wait_for_all_that_a_node_gives() -> None:
    """Two ranks got 640 samples/s while they waited: eight may get no more."""
    waiting = [Point(Place(1, 1, 32), 95, loader_ms=0), Point(Place(2, 1, 32), 100, loader_ms=20)]
    (there, elsewhere) = (Predictor(waiting, PRIORS).at(Place(8, nodes, 32)) for nodes in (1, 4))
    assert there.step_ms.high >= 400 > there.step_ms.estimate
    assert elsewhere.step_ms.high < 400  # two a node, as before


def test_cpus_of_a_node_bound_the_step_of_more_ranks_a_node() -> None:
    supply = Supply(cpu_s=0.01, cpus=8)  # 32 samples in 40 ms
    points = [Point(Place(1, 1, 32), 100), Point(Place(2, 1, 32), 101)]
    alone, fed = Predictor(points, PRIORS), Predictor(points, PRIORS, supply=supply)
    crowd, spread = Place(8, 1, 32), Place(16, 16, 32)
    assert alone.at(crowd).step_ms.estimate < 200 and not alone.at(crowd).starved
    assert fed.at(crowd).step_ms.estimate == pytest.approx(320) and fed.at(crowd).starved
    assert fed.at(crowd).step_ms.low == alone.at(crowd).step_ms.low  # a node may have more of them
    assert fed.at(spread) == alone.at(spread)


def test_storage_bounds_the_slow_end_alone() -> None:
    supply = Supply(cpu_s=0.0, cpus=8, read_bytes=1e6, bytes_per_s=5e8)
    points = [Point(Place(1, 1, 32), 100), Point(Place(2, 1, 32), 128)]
    alone, fed = (Predictor(points, PRIORS, supply=one).at(Place(8, 1, 32)) for one in (None, supply))
    assert fed.step_ms.high == pytest.approx(max(512, alone.step_ms.high))
    assert fed.step_ms.estimate == alone.step_ms.estimate and not fed.starved
