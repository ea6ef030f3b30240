"""What ``--fix`` may ask for, and that a baseline in which it does not act is no baseline."""

from typing import Any

import pytest
from builders import a_device, a_gpu_profile, a_loader, a_machine, a_rich_profile, a_window

from advisor.base.errors import UsageError
from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.recorded import Copies
from advisor.tuners.knob import Config
from advisor.tuners.knobs import KNOBS
from advisor.tuners.space.fixed import check_applied
from advisor.tuners.space.space import build_space

TWO_CPUS = a_machine(cpus_allowed=2, physical_cores=2)


def refusal_of(fixed: Config, **facts: Any) -> tuple[str, str | None]:
    with pytest.raises(UsageError) as raised:
        build_space(KNOBS, a_rich_profile(TWO_CPUS, **facts), fixed=fixed)
    assert raised.value.where == "--fix"
    return raised.value.message, raised.value.cause


@pytest.mark.parametrize(
    ("fixed", "message", "cause"),
    [
        ({"prefetch_factor": 8}, "prefetch_factor=8", "prefetch_factor needs num_workers above 0"),
        ({"amp": "bf16", "dynamic": "on"}, "dynamic=on", "dynamic needs an execution that compiles"),
        (
            {"num_workers": 1, "in_memory_cache": "memory"},
            "in_memory_cache=memory",
            "in_memory_cache with workers needs persistent_workers: a worker's cache ends with it",
        ),
    ],
)
def test_what_cannot_act_beside_the_rest_is_an_error(fixed: Config, message: str, cause: str) -> None:
    assert refusal_of(fixed) == (f"{message} cannot apply", cause)


@pytest.mark.parametrize(
    "fixed",
    [
        {"prefetch_factor": 8, "num_workers": 1},
        {"dynamic": "on", "execution": "compile"},
        {"num_workers": 4},  # of which nobody knows yet how much they compute
        {"num_threads": 64},
        {"omp_wait_policy": "passive"},
        {"lr_scaling": "linear"},
    ],
)
def test_what_takes_effect_may_be_fixed_though_no_search_would_try_it(fixed: Config) -> None:
    space = build_space(KNOBS, a_rich_profile(TWO_CPUS), fixed=fixed)
    assert fixed.items() <= space.present.items()


def copying(pinned: bool, synchronous: float) -> Profile:
    """A program on a GPU: whether it pins its batches, and the share of copies that is waited for."""
    copies = Copies("h2d", count=1.0, ms=1.0, bytes=2.0**20, synchronous=synchronous)
    window = a_window(device=a_device(copies=(copies,)))
    return a_gpu_profile(loader=a_loader(pin_memory=pinned), window=window)


def test_the_programs_own_copies_need_not_have_what_is_fixed_away() -> None:
    profile = copying(pinned=True, synchronous=0.0)
    space = build_space(KNOBS, profile, fixed={"pin_memory": "off"})
    assert (space.own["non_blocking"], space.present["pin_memory"]) == ("on", "off")


def test_copies_without_waiting_cannot_be_fixed_where_nothing_is_pinned() -> None:
    with pytest.raises(UsageError) as raised:
        build_space(KNOBS, copying(pinned=False, synchronous=1.0), fixed={"non_blocking": "on"})
    assert raised.value.cause == "non_blocking needs pin_memory"


def test_what_the_program_does_already_is_no_error() -> None:
    many = a_rich_profile(TWO_CPUS, loader=a_loader(num_workers=64))
    assert build_space(KNOBS, many, fixed={"num_workers": 64, "amp": "bf16"}).present["num_workers"] == 64


def test_a_fixed_knob_that_declined_in_the_baseline_is_an_error() -> None:
    with pytest.raises(UsageError) as raised:
        check_applied(KNOBS, {"channels_last": "on"}, {"channels_last": "no layer"}, a_rich_profile())
    assert (raised.value.message, raised.value.cause) == ("channels_last=on cannot apply", "no layer")


@pytest.mark.parametrize("value", ["off", "on"])
def test_a_knob_may_decline_what_the_program_has_anyway_or_nobody_fixed(value: str) -> None:
    fixed = {"channels_last": "off"} if value == "off" else {"amp": "bf16"}
    check_applied(KNOBS, fixed, {"channels_last": "no layer"}, a_rich_profile())
