"""When gradients become an update, and what it does; without processes."""

import random
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
import torch
from torch import nn

from advisor.tuners.mechanisms.parameter_server.keys import key_of
from advisor.tuners.mechanisms.parameter_server.shard import Push, Shard, plain_settings

START = (torch.zeros(2), torch.ones(3))


def sgd(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=1.0)


def a_shard(
    workers: int = 2, staleness: int | None = 0, build: Any = sgd, groups: Sequence[int] = (0, 0)
) -> Shard:
    keys = [key_of(name, value, group) for name, value, group in zip("ab", START, groups, strict=True)]
    shard = Shard("0", keys, build, range(workers), staleness)
    for worker in range(workers):
        shard.adopt(worker, 0, 0, START)
    return shard


def a_push(worker: int, base: int = 0, a: float | None = 1.0, *, step: int = 0, held: bool = False) -> Push:
    gradients = {} if a is None else {0: torch.full((2,), a)}
    return Push(worker, step or base + 1, base, gradients, held)


def values(shard: Shard) -> list[float]:
    return shard.parameters[0].tolist()


def test_an_update_waits_for_all_workers_and_is_their_mean() -> None:
    shard = a_shard()
    shard.push(a_push(0, a=1.0))
    assert (shard.version, shard.can_serve(0, 0), values(shard)) == (0, False, [0.0, 0.0])
    shard.push(a_push(1, a=3.0))
    assert (shard.version, shard.can_serve(0, 1), values(shard)) == (1, True, [-2.0, -2.0])
    assert dict(shard.staleness) == dict(shard.ages) == {0: 2}


def test_a_worker_without_a_gradient_counts_as_zero_and_a_key_without_any_is_left_alone() -> None:
    shard = a_shard(build=lambda parameters: torch.optim.SGD(parameters, lr=1.0, weight_decay=0.5))
    shard.push(a_push(0, a=1.0))
    shard.push(a_push(1, a=None))
    assert values(shard) == [-0.5, -0.5]
    assert torch.equal(shard.parameters[1], START[1])


def test_without_a_limit_every_push_is_an_update_of_its_own() -> None:
    shard = a_shard(staleness=None)
    for step in (1, 2, 3):
        shard.push(a_push(0, shard.version, step=step))
        assert shard.can_serve(0, shard.version)
    shard.push(a_push(1, 0, step=1))
    assert (shard.version, values(shard)) == (4, [-4.0, -4.0])
    assert dict(shard.staleness) == {0: 3, 2: 1}  # worker 0 is two steps further
    assert dict(shard.ages) == {0: 3, 3: 1}


def test_a_worker_that_is_too_far_ahead_waits_for_the_slowest() -> None:
    shard = a_shard(staleness=1)
    shard.push(a_push(0, 0, step=1))
    assert shard.can_serve(0, 0)
    shard.push(a_push(0, 1, step=2))
    assert shard.version == 2  # its gradient is used,
    assert not shard.can_serve(0, 0)  # and it waits
    shard.push(a_push(1, 0, a=5.0, step=1))
    assert shard.can_serve(0, 0) and shard.can_serve(1, 0)
    assert (shard.version, values(shard)) == (3, [-7.0, -7.0])
    assert dict(shard.staleness) == {0: 2, 1: 1}


@pytest.mark.parametrize("staleness", [0, 1, 2, 5])
def test_nobody_gets_further_ahead_than_allowed_nor_waits_for_ever(staleness: int) -> None:
    dice = random.Random(staleness)
    shard, steps = a_shard(workers=5, staleness=staleness), [0] * 5
    bases, pushed = [0] * 5, set[int]()
    for _ in range(2000):
        worker = dice.choices(range(5), weights=[1, 1, 4, 8, 16])[0]
        if worker not in pushed:
            steps[worker] += 1
            shard.push(a_push(worker, bases[worker], a=0.0, step=steps[worker]))
            pushed.add(worker)
        for other in [other for other in pushed if shard.can_serve(other, 0)]:
            bases[other] = shard.version
            pushed.discard(other)
    assert max(shard.staleness) == staleness
    assert min(steps) > 40
    assert shard.dropped == 0


def test_a_worker_that_stops_ahead_holds_up_no_slower_one() -> None:
    shard = a_shard(staleness=2)
    for step in (1, 2, 3):
        shard.push(a_push(0, shard.version, step=step))
    assert not shard.can_serve(0, 0)
    for step in (1, 2, 3, 4, 5):
        assert shard.can_serve(1, 0)
        shard.push(a_push(1, shard.version, step=step))
    assert shard.can_serve(1, 0)
    shard.push(a_push(1, shard.version, step=6))
    assert not shard.can_serve(1, 0)


def test_nobody_is_ahead_of_workers_that_are_not_known_yet() -> None:
    keys = [key_of("a", START[0])]
    shard = Shard("0", keys, sgd, range(2), staleness=1)
    shard.adopt(0, 7, 7, START[:1])
    assert not shard.can_serve(0, 0)
    shard.adopt(1, 6, 7, START[:1])
    assert shard.can_serve(0, 0)


def test_the_settings_of_the_program_are_those_of_the_next_update() -> None:
    shard = a_shard(workers=1)
    shard.configure([{"lr": 0.25}])
    shard.push(a_push(0))
    assert values(shard) == [-0.25, -0.25]


def test_keys_of_two_groups_keep_their_settings_however_they_are_grouped_here() -> None:
    shard = a_shard(workers=1, groups=(1, 0))
    shard.configure([{"lr": 0.5}, {"lr": 0.125}])
    shard.push(Push(0, 1, 0, {0: torch.ones(2), 1: torch.ones(3)}))
    assert values(shard) == [-0.125, -0.125]
    assert shard.parameters[1].tolist() == [0.5, 0.5, 0.5]


def test_settings_travel_as_json_and_what_is_bound_to_tensors_stays() -> None:
    parameter = nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.AdamW([parameter], lr=torch.tensor(0.5), betas=(0.5, 0.75), capturable=False)
    (settings,) = plain_settings(optimizer.param_groups)
    assert settings["lr"] == 0.5 and settings["betas"] == [0.5, 0.75]
    assert not {"params", "capturable"} & set(settings)


def test_an_update_that_is_held_waits_for_its_factor() -> None:
    shard = a_shard()
    shard.push(a_push(0, a=3.0, held=True))
    assert shard.norm_squared(0) is None
    shard.push(a_push(1, a=5.0, held=True))
    assert shard.norm_squared(0) == pytest.approx(32.0)
    assert not shard.can_serve(0, 0)
    shard.scale(0, 0.5)
    shard.scale(0, 0.125)  # the other worker's, of the same update
    assert (shard.version, values(shard)) == (1, [-2.0, -2.0])
    assert shard.norm_squared(0) == pytest.approx(32.0)  # for a worker that asks late
    assert shard.norm_squared(1) is None


def test_a_factor_that_comes_before_the_last_gradient_is_not_lost() -> None:
    shard = a_shard()
    shard.push(a_push(0, a=2.0, held=True))
    shard.scale(0, 0.5)
    shard.push(a_push(1, a=2.0, held=True))
    assert (shard.version, values(shard)) == (1, [-1.0, -1.0])


def test_only_the_mean_of_all_workers_can_be_held() -> None:
    with pytest.raises(ValueError, match="staleness 0"):
        a_shard(staleness=None).push(a_push(0, held=True))


def test_a_second_push_without_a_pull_is_an_error() -> None:
    shard = a_shard()
    shard.push(a_push(0))
    with pytest.raises(ValueError, match="worker 0 pushed twice"):
        shard.push(a_push(0))


def test_without_a_worker_the_mean_of_all_cannot_be_made() -> None:
    shard = a_shard()
    shard.leave(1)
    shard.push(a_push(0))
    assert shard.broken
    assert shard.version == 0


def test_without_a_worker_others_go_on_where_they_need_not_wait() -> None:
    shard = a_shard(staleness=1)
    for base in (0, 1):
        shard.push(a_push(0, base))
    assert not shard.can_serve(0, 0)
    shard.leave(1)
    assert shard.can_serve(0, 0)
    assert not shard.broken


def test_newer_values_replace_those_of_a_lost_server_until_an_update_is_made() -> None:
    shard = a_shard()
    shard.push(a_push(0, 0))
    shard.adopt(1, 3, 3, [torch.full((2,), 7.0), START[1]])
    assert (shard.version, values(shard)) == (3, [7.0, 7.0])
    assert shard.can_serve(0, 3)  # what it pushed is part of them
    shard.push(a_push(1, 0))  # so is this
    assert (shard.dropped, shard.version) == (1, 3)
    shard.push(a_push(0, 3))
    shard.push(a_push(1, 3))
    shard.adopt(1, 9, 9, START)
    assert (shard.version, values(shard)) == (4, [6.0, 6.0])
    assert shard.newest - shard.began == 6


def momentum(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=1.0, momentum=0.5)


def test_state_goes_over_to_another_server() -> None:
    first, second = a_shard(1, build=momentum), a_shard(1, build=momentum)
    first.push(a_push(0))
    second.restore(first.version, first.state())
    second.push(a_push(0))
    assert values(second) == [-1.5, -1.5]  # 1 + half of the momentum of the update before
    assert second.kept == 1


def test_an_optimizer_without_state_has_nothing_to_keep() -> None:
    shard = a_shard(1)
    shard.push(a_push(0))
    assert shard.state() == {}


def test_values_are_packed_once_per_version() -> None:
    shard = a_shard(1)
    before = shard.packed(16)
    assert [positions for positions, _ in before] == [[0], [1]]
    assert shard.packed(16) is before
    shard.push(a_push(0))
    assert shard.packed(16) is not before


def test_a_worker_whose_push_is_left_out_is_still_waited_for() -> None:
    shard = a_shard()
    shard.adopt(0, 1, 1, START)
    shard.push(a_push(1, 0))
    shard.push(a_push(0, 1))
    assert (shard.dropped, shard.version, shard.can_serve(1, 0)) == (1, 1, True)
    shard.push(a_push(1, 1))
    assert shard.version == 2


def test_a_worker_that_pulls_late_is_waited_for() -> None:
    shard = a_shard()
    shard.push(a_push(0))
    shard.push(a_push(1))
    shard.push(a_push(0, 1))
    assert shard.version == 1
