"""Memory of ranks from measured categories, beside what public programs measured."""

import pytest

from advisor.planning.memory import Memory
from advisor.planning.places import Place
from advisor.planning.shares import Categories, Layers, Server, Stages, whole_share

GIB = 2**30
ONE = Categories(
    parameters=4e9, gradients=4e9, optimizer=8e9, activations=10e9, peak=27e9, local_batch=8, reserved=30e9
)


def at(strategy: str, ranks: int, nodes: int = 1, batch: float = 8, **more: float) -> float:
    return Memory(ONE, **more).at(strategy, Place(ranks, nodes, batch)).peak_bytes / 1e9  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("strategy", "said"),
    [
        ("single", 27),
        ("ddp", 27 + 4),  # a second copy of the gradients in buckets
        ("zero", 27 + 4 - 8 * 3 / 4),
        ("zero2", 27 - 12 * 3 / 4),
        (
            "fsdp",
            27 - 16 * 3 / 4 + 8,
        ),  # whole parameters while they are needed, and what they are copied from
    ],
)
def test_a_strategy_divides_what_its_paper_says(strategy: str, said: float) -> None:
    assert at(strategy, 4) == pytest.approx(said)


def test_hybrid_sharding_divides_over_a_node_alone() -> None:
    assert at("hybrid", 8, 2) == pytest.approx(at("fsdp", 4))
    assert at("hybrid", 64, 16) == pytest.approx(at("fsdp", 4))


def test_activations_follow_the_local_batch() -> None:
    assert at("ddp", 4, batch=4) == pytest.approx(at("ddp", 4) - 5)


@pytest.mark.parametrize(
    ("strategy", "saved", "peak"),
    [
        # parameters and gradients of 4 GB, state of 8, and 1 that is always there
        ("ddp", 10e9, 13 + 4 + 10),  # the end of forward, beside buckets
        ("ddp", 1e9, 13 + 4 + 4),  # the end of backward
        ("fsdp", 10e9, 1 + 12 / 4 + 10 + 2 * 4),  # parameters gathered again, beside all activations
        ("fsdp", 1e9, 1 + 12 / 4 + 2 * 4 + 4 / 4),  # whole gradients, their buffer and the own share
    ],
)
def test_saved_activations_and_gradients_have_their_peaks_apart(
    strategy: str, saved: float, peak: float
) -> None:
    whole = 13e9 + max(saved, 4e9)
    categories = Categories(4e9, 4e9, 8e9, saved, peak=whole, local_batch=8, saved=True)
    row = Memory(categories).at(strategy, Place(4, 1, 8))
    assert row.peak_bytes == row.high_bytes == pytest.approx(1e9 * peak)


STATE = 1 + 12 / 4  # a quarter of parameters and state; a rest of 1


@pytest.mark.parametrize(
    ("schedule", "parts", "saved", "peak"),
    [
        # four stages, each of all 32 samples; 10 GB of activations are those of 8, so one stage has 10
        ("gpipe", 4, 10e9, STATE + 10),  # the end of forward
        # gradients of 1 beside three of four micro-batches, and the largest one of them twice
        ("gpipe", 4, 2e9, STATE + 1 + 3 / 4 * 2 + 0.3),
        ("gpipe", 1, 10e9, STATE + 10),  # all gone when gradients come
        ("1f1b", 8, 10e9, STATE + 1 + 4 / 8 * 10 + 0.3),  # as many as stages
        ("1f1b", 4, 2e9, STATE + 1 + 3 / 4 * 2 + 0.3),
    ],
)
def test_a_stage_holds_the_micro_batches_that_its_schedule_has_in_flight(
    schedule: str, parts: int, saved: float, peak: float
) -> None:
    categories = Categories(4e9, 4e9, 8e9, saved, peak=13e9 + max(saved, 4e9), local_batch=8, saved=True)
    memory = Memory(categories, divisions={"pipeline": Stages(schedule, parts, largest=0.3e9)})
    row = memory.at("pipeline", Place(4, 1, 8))
    assert row.peak_bytes == row.high_bytes == pytest.approx(1e9 * peak)
    assert row.assumed == f"{schedule}, {parts} micro-batches, equal stages"


def test_divided_layers_keep_activations_of_the_whole_batch() -> None:
    half = Memory(ONE, divisions={"tensor_parallel": Layers(whole=0.5)})
    assert at("tensor_parallel", 4) == pytest.approx(1 + 16 / 4 + 4 * 10)
    assert half.at("tensor_parallel", Place(4, 1, 2)).peak_bytes / 1e9 == pytest.approx(1 + 16 * 5 / 8 + 10)
    assert whole_share(0.75, 2) == 0.5 and whole_share(1, 2) == 1


def test_workers_of_a_parameter_server_have_no_state_and_servers_gradients_of_all() -> None:
    assert at("parameter_server", 4) == pytest.approx(at("single", 1) - 8)  # gradients are packed later
    two = Memory(ONE, divisions={"server": Server(2)})
    row = two.at("server", Place(4, 1, 8))
    assert row.peak_bytes / 1e9 == pytest.approx(1 + (4 + 8 + (4 + 1) * 4) / 2)


def test_what_was_measured_stays_and_starts_the_rest() -> None:
    peaks = {"fsdp": {Place(2, 1, 8): 30e9}}
    memory = Memory(ONE, peaks)
    measured, other = memory.at("fsdp", Place(2, 1, 8)), memory.at("fsdp", Place(8, 1, 8))
    assert (measured.peak_bytes, measured.basis) == (30e9, "measured")
    assert other.basis == "measured elsewhere"
    assert other.peak_bytes == pytest.approx(30e9 - 16e9 * (1 / 2 - 1 / 8))
    assert other.high_bytes == pytest.approx(30e9 - 12e9 * (1 / 2 - 1 / 8))


@pytest.mark.parametrize(
    ("capacity", "fit"), [(40e9, "fits"), (33e9, "tight"), (30e9, "does not fit"), (None, "unknown")]
)
def test_reserved_memory_decides_between_fits_and_tight(capacity: float | None, fit: str) -> None:
    row = Memory(ONE, capacity=capacity).at("ddp", Place(2, 1, 8))
    assert row.reserved_bytes == pytest.approx(31e9 * 30 / 27)
    assert row.fit == fit


def test_ranks_of_a_node_share_the_memory_of_a_host() -> None:
    memory = Memory(ONE, capacity=80e9, shared=True)
    assert memory.at("ddp", Place(2, 1, 8)).fit == "fits"
    assert memory.at("ddp", Place(4, 1, 8)).fit == "does not fit"


@pytest.mark.parametrize(
    ("eight", "many"), [(82.4, 67.0), (77.0, 62.0), (76.8, 61.8)], ids=["eager", "compiled", "float8"]
)
def test_fsdp_from_8_to_128_gpus_is_as_torchtitan_measured(eight: float, many: float) -> None:
    """Llama 3.1 8B, GiB of one H100 (pytorch/torchtitan, benchmarks/llama3_h100_202412_torchtitan.md).

    The program keeps parameters, gradients and both states of Adam in float32.
    """
    size = 4 * 8.03e9
    categories = Categories(size, size, 2 * size, 0, eight * GIB, 2)
    memory = Memory(categories, {"fsdp": {Place(8, 1, 2): eight * GIB}})
    row = memory.at("fsdp", Place(128, 16, 2))
    assert row.peak_bytes / GIB == pytest.approx(many, rel=0.03)
    assert abs(many - row.peak_bytes / GIB) < abs(many - eight) / 5  # what was measured at 8 alone is far off
