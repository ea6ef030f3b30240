from pathlib import Path

import pytest
import torch
from builders import a_loader, a_profile, a_root
from ranks import Told, run_ranks
from sharded_training import STEPS, a_model, a_workload, assert_alike, first_of, whole_losses
from torch import nn, optim

from advisor.profiles.facts.profile import Profile, RunFacts
from advisor.tuners.knob import Refused, Semantics
from advisor.tuners.mechanisms.data_parallel.averaging import average
from advisor.tuners.strategies.local_sgd import LocalSgd
from advisor.workloads.workload import Workload

PARAMETERS = sum(parameter.numel() for parameter in a_model().parameters())


def plain_sgd() -> Workload:
    """Updates that are linear in the gradient."""
    return a_workload(optimizer=lambda parameters: optim.SGD(parameters, lr=0.05))


def trained(folder: Path, steps: int, period: int) -> list[Told]:
    return run_ranks("local_sgd", a_workload, folder, steps=steps, config={"averaging_period": period})


@pytest.mark.parametrize("updates", [4, 8])
def test_right_after_an_averaging_all_ranks_hold_the_same_model(updates: int, tmp_path: Path) -> None:
    first, second = trained(tmp_path, updates, 4)
    assert first.parameters == second.parameters
    assert first.report["averagings"] == updates // 4


@pytest.mark.parametrize("updates", [3, 5])
def test_between_two_averagings_the_ranks_hold_different_models(updates: int, tmp_path: Path) -> None:
    first, second = trained(tmp_path, updates, 4)
    assert all(values != second.parameters[name] for name, values in first.parameters.items())


def test_averages_after_every_plain_update_are_one_process(tmp_path: Path) -> None:
    (alone,) = run_ranks("single", plain_sgd, tmp_path / "single", workers=1, steps=STEPS)
    told = run_ranks("local_sgd", plain_sgd, tmp_path, steps=STEPS, config={"averaging_period": 1})
    assert_alike(told, alone)


def test_rarer_averages_learn_something_else(tmp_path: Path) -> None:
    (alone,) = run_ranks("single", a_workload, tmp_path / "single", workers=1, steps=STEPS)
    assert whole_losses(trained(tmp_path, STEPS, 8)) != pytest.approx(alone.losses, rel=1e-3)


@pytest.mark.long
def test_it_converges(tmp_path: Path) -> None:
    losses = whole_losses(trained(tmp_path, 200, 8))
    assert sum(losses[-4:]) < 0.2 * sum(losses[:4])


def partly_frozen() -> Workload:
    def model() -> nn.Module:
        made = a_model()
        made[0].requires_grad_(False)  # type: ignore[index]
        return made

    return a_workload(model=model)


def test_what_is_not_trained_does_not_travel(tmp_path: Path) -> None:
    first, second = run_ranks("local_sgd", partly_frozen, tmp_path, steps=4)
    assert first.parameters == second.parameters
    assert first.report["bytes_per_step"] == 4 * (PARAMETERS - 6 * 12 - 12) // 4


def test_averaging_leaves_memory_formats_and_places_as_they_are() -> None:
    convolution = nn.Conv2d(4, 8, 3).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    before = [(each.data_ptr(), each.stride(), each.detach().clone()) for each in convolution.parameters()]
    with first_of(1):
        average(convolution.parameters(), 1)
    for parameter, (place, stride, values) in zip(convolution.parameters(), before, strict=True):
        assert (parameter.data_ptr(), parameter.stride()) == (place, stride)
        assert torch.equal(parameter, values)


def test_without_a_setting_every_fourth_update_is_followed_by_an_average(tmp_path: Path) -> None:
    first, _ = run_ranks("local_sgd", a_workload, tmp_path, steps=9)
    counters = 4 * len(list(a_model().parameters()))
    assert first.report == {
        "bytes_per_step": PARAMETERS,
        "averagings": 2,
        "averaging_period": 4,
        "parameter_bytes": 4 * PARAMETERS,
        "optimizer_state_bytes": 2 * 4 * PARAMETERS + counters,
    }


def test_it_is_known_to_learn_something_else() -> None:
    assert LocalSgd().meaning({}) is Semantics.TRAINING


def test_before_training_there_is_nothing_to_report() -> None:
    assert LocalSgd().report() == {}


def test_an_ordinary_program_can_be_trained() -> None:
    LocalSgd().check(a_profile(roots=(a_root(),), loader=a_loader()), 2)


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        (a_profile(roots=(a_root(parallel="DistributedDataParallel"),)), "DistributedDataParallel itself"),
        (a_profile(run=RunFacts(sum_reduced_loss=True)), "summed over the batch"),
        (a_profile(loader=a_loader(iterable=True)), "iterable"),
        (a_profile(target_kind="script"), "script"),
    ],
)
def test_where_it_cannot_train_the_reason_is_said(profile: Profile, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        LocalSgd().check(profile, 2)
