"""Every law says what it is, costs nothing alone, and agrees with a case worked by hand."""

import inspect

import pytest

from advisor.planning.fabric import Fabric, Link
from advisor.planning.law import Law, Work
from advisor.planning.laws import LAWS

LATENCY = Link(latency_s=1.0, bytes_per_s=float("inf"))  # seconds count the messages
BANDWIDTH = Link(latency_s=0.0, bytes_per_s=1.0)  # seconds count the bytes
FAST = Link(latency_s=0.0, bytes_per_s=10.0)


def fabric(ranks: int, link: Link, nodes: int = 1, within: Link | None = None) -> Fabric:
    return Fabric(ranks, nodes, within or link, link)


BY_HAND = [
    # four devices: three steps to sum and three to spread, in chunks of a quarter
    ("ring", fabric(4, LATENCY), Work(gradient_bytes=400), 6),
    ("ring", fabric(4, BANDWIDTH), Work(gradient_bytes=400), 600),
    ("two_way_ring", fabric(4, LATENCY), Work(gradient_bytes=400), 6),
    ("two_way_ring", fabric(4, BANDWIDTH), Work(gradient_bytes=400), 300),
    ("broadcast", fabric(4, BANDWIDTH), Work(gradient_bytes=400), 2400),
    ("tree", fabric(8, LATENCY), Work(gradient_bytes=400), 6),
    ("tree", fabric(8, BANDWIDTH), Work(gradient_bytes=400), 2400),
    # four nodes of eight: seven steps in the node and two levels of nodes, there and back
    ("double_binary_tree", fabric(32, LATENCY, nodes=4), Work(gradient_bytes=400), 18),
    ("double_binary_tree", fabric(32, BANDWIDTH, nodes=4), Work(gradient_bytes=400), 800),
    # two nodes of four, ten times faster within: 2 x 3/4 x 400/10 and 2 x 1/2 x 100
    ("hierarchical", fabric(8, BANDWIDTH, nodes=2, within=FAST), Work(gradient_bytes=400), 160),
    ("reduce_scatter", fabric(4, BANDWIDTH), Work(gradient_bytes=400), 300),
    ("all_gather", fabric(4, LATENCY), Work(gradient_bytes=400), 3),
    ("zero", fabric(4, BANDWIDTH), Work(gradient_bytes=400), 600),
    ("fsdp", fabric(4, BANDWIDTH), Work(gradient_bytes=400), 900),
    # within: 3 x 3/4 x 400/10; across: an all-reduce of 100 between two
    ("hybrid", fabric(8, BANDWIDTH, nodes=2, within=FAST), Work(gradient_bytes=400), 190),
    # eight workers: 2 x 8 x 100 through one server's link, a quarter with four, with many the workers' own
    ("parameter_server", fabric(8, BANDWIDTH), Work(gradient_bytes=100), 1600),
    ("parameter_server", fabric(8, BANDWIDTH), Work(gradient_bytes=100, servers=4), 400),
    ("parameter_server", fabric(8, BANDWIDTH), Work(gradient_bytes=100, servers=16), 200),
    ("async_parameter_server", fabric(8, BANDWIDTH), Work(gradient_bytes=100, compute_s=1000), 600),
    ("async_parameter_server", fabric(8, BANDWIDTH), Work(gradient_bytes=100, compute_s=1500), 200),
    ("local_updates", fabric(4, BANDWIDTH), Work(gradient_bytes=400, local_steps=8), 75),
    # four stages, eight micro-batches: three of eleven slots are idle, 3/8 of the work
    ("gpipe", fabric(4, LATENCY), Work(compute_s=8, micro_batches=8), 3),
    ("one_forward_one_backward", fabric(4, LATENCY), Work(compute_s=8, micro_batches=8), 3),
    ("interleaved", fabric(4, LATENCY), Work(compute_s=8, micro_batches=8, chunks=2), 1.5),
    ("tensor_parallel", fabric(2, BANDWIDTH), Work(layers=3, activation_bytes=10), 120),
    ("tensor_parallel", fabric(2, BANDWIDTH), Work(layers=3, activation_bytes=10, recomputes=True), 180),
]


@pytest.mark.parametrize(("law", "where", "work", "seconds"), BY_HAND)
def test_a_law_agrees_with_the_case_worked_by_hand(
    law: str, where: Fabric, work: Work, seconds: float
) -> None:
    assert LAWS[law].seconds(work, where) == pytest.approx(seconds)


def test_no_law_is_without_a_case() -> None:
    assert {law for law, *_ in BY_HAND} == set(LAWS)


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_a_law_says_what_it_is_and_whose(law: Law) -> None:
    assert law.formula and law.source and inspect.getdoc(law)


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_one_rank_alone_pays_nothing(law: Law) -> None:
    work = Work(gradient_bytes=400, compute_s=8, layers=2, activation_bytes=10)
    assert law.seconds(work, fabric(1, Link(1, 1))) == 0


def test_ranks_that_do_not_divide_over_nodes_are_refused() -> None:
    with pytest.raises(ValueError, match="7 ranks do not divide over 2 nodes"):
        Fabric(7, 2, LATENCY, LATENCY)
