"""What is sent of gradients, and what arrives."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._C._distributed_c10d import HashStore
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import _should_compress

from advisor.tuners.mechanisms.data_parallel.compression import (
    BLOCK,
    Int8,
    TopK,
    decode,
    encode,
    int8_bytes,
    low_rank_values,
    part_size,
    parts_of,
    sent_by,
    sum_of_largest,
    take_largest,
    topk_bytes,
)

STEPS = 800


@pytest.fixture
def alone() -> Iterator[None]:
    """A group of one process, which is sent only what it sends."""
    dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1, timeout=timedelta(seconds=60))
    yield
    dist.destroy_process_group()


@dataclass
class Bucket:
    """The gradients of some parameters, as a communication hook is handed them."""

    owners: list[Tensor]
    gradients: Tensor

    def buffer(self) -> Tensor:
        return self.gradients

    def parameters(self) -> list[Tensor]:
        return self.owners


def averaged(hook: Any, *parts: tuple[Tensor, Tensor]) -> Tensor:
    """What a hook makes of one bucket of (parameter, gradient)."""
    bucket = Bucket([owner for owner, _ in parts], torch.cat([gradient for _, gradient in parts]))
    arrived: Tensor = hook.average(bucket).wait()
    assert arrived is bucket.gradients
    return arrived


def drawn(size: int, seed: int = 0) -> Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed))


def test_the_mean_of_many_roundings_is_the_value() -> None:
    values = drawn(100)
    scale = float(values.abs().max()) / 127
    rows = encode(values.repeat(4000, 1), torch.Generator().manual_seed(1))
    error = decode(rows, 100).mean(0) - values
    assert float(error.abs().max()) < 0.06 * scale  # rounding to nearest would be off by up to half of it
    assert float(error.abs().mean()) < 0.012 * scale


def test_a_rounding_is_off_by_less_than_one_step_of_its_own_block() -> None:
    rows = torch.cat([drawn(BLOCK), 1000 * drawn(BLOCK, 1)]).view(1, -1)
    off = (decode(encode(rows), 2 * BLOCK) - rows).abs().view(2, -1).amax(1)
    assert float(off[0]) <= float(rows[0, :BLOCK].abs().max()) / 127 * 1.001
    assert float(off[1]) > 1


def test_zeros_and_the_largest_values_arrive_as_they_are() -> None:
    rows = torch.tensor([[0.0, 0.0, 0.0], [-2.0, 0.0, 2.0]])
    torch.testing.assert_close(decode(encode(rows), 3), rows)


@pytest.mark.parametrize("wrong", [float("inf"), float("nan")])
def test_an_overflow_arrives_as_one(wrong: float) -> None:
    assert decode(encode(torch.tensor([[wrong, 1.0]])), 2).isnan().any()


@pytest.mark.parametrize(("size", "workers", "expected"), [(5000, 3, 1671), (10, 4, 7), (3 * BLOCK, 1, 6156)])
def test_a_part_in_8_bits_has_the_bytes_that_are_predicted(size: int, workers: int, expected: int) -> None:
    message = encode(parts_of(drawn(size), workers))
    assert message.shape == (workers, expected)
    assert message.element_size() == 1
    assert int8_bytes(size, workers) == expected


@pytest.mark.parametrize(("size", "expected"), [(5000, 400), (5001, 408), (7, 8)])
def test_the_largest_values_have_the_bytes_that_are_predicted(size: int, expected: int) -> None:
    assert take_largest(drawn(size)).nbytes == topk_bytes(size) == expected


def test_the_largest_are_taken_away_and_added_up_where_they_were() -> None:
    ours, theirs = torch.zeros(200), torch.zeros(200)
    ours[[3, 7, 9]] = torch.tensor([5.0, -6.0, 1.0])
    theirs[[3, 8]] = torch.tensor([-1.0, 2.0])
    total = sum_of_largest(torch.stack([take_largest(ours), take_largest(theirs)]), 200)
    assert {int(at): float(total[at]) for at in total.nonzero()} == {3: 4.0, 7: -6.0, 8: 2.0}
    assert {int(at): float(ours[at]) for at in ours.nonzero()} == {9: 1.0}


def test_all_that_is_not_sent_at_once_is_sent_in_the_long_run(alone: None) -> None:
    hook, owner = TopK(), nn.Parameter(torch.zeros(500))
    given, arrived = torch.zeros(500), torch.zeros(500)
    for step in range(STEPS):
        gradient = drawn(500, step) + 0.2
        given += gradient
        arrived += averaged(hook, (owner, gradient))
    torch.testing.assert_close(arrived + hook.unsent[owner], given, rtol=1e-4, atol=1e-3)
    assert (arrived != 0).all()
    assert float((arrived - given).norm() / given.norm()) < 0.3


def test_what_is_kept_follows_its_parameter_into_another_bucket(alone: None) -> None:
    hook, first, second = TopK(), nn.Parameter(torch.zeros(90)), nn.Parameter(torch.zeros(60))
    ones, twos = torch.full((90,), 1.0), torch.full((60,), 2.0)
    arrived = averaged(hook, (first, ones), (second, twos)).clone()
    later = torch.cat([averaged(hook, (first, ones)), averaged(hook, (second, twos))])
    kept = torch.cat([hook.unsent[first], hook.unsent[second]])
    torch.testing.assert_close(arrived + later + kept, 2 * torch.cat([ones, twos]))


def test_an_overflow_is_not_kept(alone: None) -> None:
    hook, owner = TopK(), nn.Parameter(torch.zeros(300))
    assert not averaged(hook, (owner, torch.full((300,), float("inf")))).isfinite().all()
    assert averaged(hook, (owner, torch.ones(300))).isfinite().all()
    assert hook.unsent[owner].isfinite().all()


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float64])
def test_gradients_keep_their_type(alone: None, kind: torch.dtype) -> None:
    owner, gradient = nn.Parameter(torch.zeros(100, dtype=kind)), drawn(100).to(kind)
    for hook in (TopK(), Int8()):
        assert averaged(hook, (owner, gradient)).dtype == kind
    assert float((averaged(Int8(), (owner, gradient)) - gradient).abs().max()) < 0.1


def test_rounding_at_random_draws_none_of_the_programs_numbers(alone: None) -> None:
    hook, owner, before = Int8(), nn.Parameter(torch.zeros(100)), torch.get_rng_state()
    first, second = (averaged(hook, (owner, drawn(100))).clone() for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.equal(first, second)


@pytest.mark.parametrize("shape", [(50, 100), (50,), (3, 4), (1, 900), (16, 3, 3, 3), (2, 2)])
def test_powersgd_shrinks_the_matrices_that_torch_would(shape: tuple[int, ...]) -> None:
    rows, columns = shape[0], torch.zeros(shape).numel() // shape[0]
    shrinks, whole, low = _should_compress(rows, columns, 1, 2)
    assert low_rank_values(shape) == (low if shrinks else whole)


@pytest.mark.parametrize(
    ("hook", "of_two", "of_four"),
    [
        ("none", 20200, 30300),
        ("fp16", 10100, 15150),
        ("bf16", 10100, 15150),
        ("powersgd", 800, 1200),  # (50 + 100) values for the weight, 50 for the bias
        ("topk", 408, 1224),  # 51 values and places
        ("int8", 5066, 7602),
    ],
)
def test_bytes_follow_the_formulas(hook: str, of_two: int, of_four: int) -> None:
    layer = nn.Linear(100, 50)
    assert sent_by(hook, 2, layer.parameters(), [5050]) == pytest.approx(of_two)
    assert sent_by(hook, 4, layer.parameters(), [5050]) == pytest.approx(of_four)


def test_parts_cover_the_bucket_and_are_filled_up_with_zeros() -> None:
    rows = parts_of(torch.arange(10.0), 4)
    assert rows.shape == (4, part_size(10, 4)) == (4, 3)
    assert rows.flatten().tolist() == [*range(10), 0, 0]
