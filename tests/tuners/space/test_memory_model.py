"""Predicted memory, over programs whose memory is known."""

from dataclasses import replace
from typing import Any

import pytest
from builders import A_GPU, a_gpu_profile, a_loader, a_machine, a_profile, a_root, an_optimizer

from advisor.profiles.facts.profile import MemoryUse, Profile, RunFacts
from advisor.tuners.knob import Config
from advisor.tuners.space import constraints
from advisor.tuners.space.memory_model import MemoryModel, host_bytes, limited, memory_limit, memory_model

MB = 2**20


def a_host_memory(**facts: Any) -> MemoryUse:
    """Parameters, gradients and states of 100, 100 and 200 MB; 2 MB of activations for each of 32 samples."""
    memory = MemoryUse(
        host_peak_bytes=700 * MB, parameter_bytes=100 * MB, gradient_bytes=100 * MB,
        optimizer_bytes=200 * MB, activation_bytes=64 * MB,
    )  # fmt: skip
    return replace(memory, **facts)


def a_host_profile(**facts: Any) -> Profile:
    return a_profile(
        loader=facts.pop("loader", a_loader(batch_bytes=MB)),
        memory=facts.pop("memory", a_host_memory()),
        optimizers=facts.pop("optimizers", (an_optimizer(foreach=False),)),
        **facts,
    )


def a_device_profile(peak: int, **facts: Any) -> Profile:
    """On a GPU of 1000 MB."""
    memory = MemoryUse(
        host_peak_bytes=3000 * MB, device_peak_bytes=peak, device_total_bytes=1000 * MB,
        parameter_bytes=100 * MB, gradient_bytes=100 * MB, optimizer_bytes=200 * MB,
        activation_bytes=max(0, peak - 400 * MB),
    )  # fmt: skip
    return a_gpu_profile(memory=memory, loader=a_loader(batch_bytes=MB), **facts)


def the_model(profile: Profile) -> MemoryModel:
    model = memory_model(profile)
    assert model is not None
    return model


def test_a_profile_is_split_into_what_grows_with_the_batch_and_what_does_not() -> None:
    model = the_model(a_host_profile())
    assert (model.process_bytes, model.sample_bytes) == (300 * MB, 2 * MB)
    assert model.at_least({}) == 700 * MB


@pytest.mark.parametrize(
    ("config", "needed"),
    [
        ({"batch_size": 40}, 700),  # 80 MB of activations, less than the gradients at the update
        ({"batch_size": 256}, 600 + 512),
        ({"batch_size": 256, "amp": "bf16"}, 600 + 256),
        ({"batch_size": 256, "amp": "off"}, 600 + 512),
        ({"batch_size": 256, "activation_checkpointing": "all"}, 600 + 256),
        ({"batch_size": 256, "activation_checkpointing": "none"}, 600 + 512),
        ({"batch_size": 256, "accumulation": 2}, 600 + 256),
        ({"optimizer_implementation": "foreach"}, 600 + 200),
        ({"optimizer_implementation": "default"}, 700),
        ({"batch_size": 256, "optimizer_implementation": "foreach"}, 600 + 512),
        ({"num_workers": 2, "prefetch_factor": 3}, 700 + 6),
        ({"batch_size": 64, "num_workers": 4}, 600 + 128 + 16),
    ],
)
def test_each_setting_changes_what_it_concerns(config: Config, needed: int) -> None:
    assert the_model(a_host_profile()).at_least(config) == needed * MB


def test_queues_of_workers_lie_on_the_host_and_not_on_the_device() -> None:
    model = the_model(a_device_profile(800 * MB))
    assert model.at_least({"num_workers": 4}) == model.at_least({})


def test_on_a_device_torch_itself_updates_by_foreach() -> None:
    model = the_model(a_device_profile(500 * MB))
    assert model.at_least({}) == 500 * MB
    assert model.at_least({"optimizer_implementation": "for-loop"}) == 400 * MB


def test_activations_on_a_device_are_what_other_parts_surely_leave() -> None:
    assert the_model(a_device_profile(800 * MB)).sample_bytes == 0  # libraries may have had it all
    assert the_model(a_device_profile(2000 * MB)).sample_bytes == (2000 - 400 - 1024) * MB / 32
    kept = (an_optimizer(zeroes_gradients=True),)
    assert the_model(a_device_profile(2000 * MB, optimizers=kept)).kept_bytes == 400 * MB
    accumulated = RunFacts(backwards_per_step=4)
    assert the_model(a_device_profile(2000 * MB, run=accumulated)).kept_bytes == 400 * MB


def test_activations_that_were_not_seen_on_the_host_are_not_sure() -> None:
    model = the_model(a_host_profile(memory=a_host_memory(activation_bytes=None)))
    assert (model.process_bytes, model.sample_bytes) == (0, 0)


def test_without_a_batch_or_memory_there_is_no_model() -> None:
    assert memory_model(a_profile(loader=a_loader())) is None
    assert memory_model(a_profile(memory=a_host_memory())) is None
    assert memory_model(a_host_profile(loader=a_loader(batch_size=None))) is None
    assert memory_model(replace(a_device_profile(800 * MB), memory=a_host_memory())) is None


def test_what_may_be_used_is_what_there_is_less_headroom_unless_it_is_said() -> None:
    assert memory_limit(a_device_profile(800 * MB)) == 920 * MB
    assert memory_limit(a_device_profile(800 * MB), 500 * MB) == 500 * MB
    assert memory_limit(a_gpu_profile()) is None
    assert memory_limit(a_profile(a_machine(memory_bytes=1000 * MB))) == 920 * MB


def test_free_memory_of_the_host_counts_what_the_program_itself_had() -> None:
    machine = a_machine(memory_bytes=16_000 * MB, available_bytes=2000 * MB)
    assert host_bytes(replace(a_host_profile(), machine=machine)) == 2700 * MB
    in_cgroup = a_host_memory(host_limit_bytes=1500 * MB, host_used_share=0.5)
    assert host_bytes(replace(a_host_profile(memory=in_cgroup), machine=machine)) == 1450 * MB


@pytest.mark.parametrize("profile", [a_host_profile(), a_device_profile(800 * MB)])
def test_a_limit_of_the_user_takes_the_place_of_what_there_is(profile: Profile) -> None:
    assert memory_limit(limited(profile, 300 * MB)) == pytest.approx(300 * MB, abs=2)
    assert limited(profile, None) == profile
    assert memory_limit(limited(profile, 10**15)) == memory_limit(profile)


def on_a_small_machine(**facts: Any) -> Profile:
    return replace(a_host_profile(**facts), machine=a_machine(memory_bytes=1000 * MB))


def test_what_needs_far_more_memory_than_there_is_is_not_run() -> None:
    fits, profile = constraints.predicted_memory_fits, on_a_small_machine()
    assert fits({"batch_size": 256}, profile) is None  # 1112 MB of 920: may be wrong
    assert fits({"batch_size": 512}, profile) == (
        "it is predicted to need at least 1624 MiB of memory with a batch of 512; 920 MiB may be used"
    )


@pytest.mark.parametrize(
    "saving",
    [{"amp": "bf16"}, {"activation_checkpointing": "all"}, {"accumulation": 2},
     {"saved_tensor_offload": "on"}, {"execution": "compile"}],
)  # fmt: skip
def test_what_may_save_enough_is_tried(saving: Config) -> None:
    assert constraints.predicted_memory_fits({"batch_size": 512, **saving}, on_a_small_machine()) is None


def test_many_blocks_leave_checkpointing_more_to_save() -> None:
    config: Config = {"batch_size": 1024, "activation_checkpointing": "all"}
    assert constraints.predicted_memory_fits(config, on_a_small_machine()) is not None
    deep = on_a_small_machine(roots=(a_root(repeated_blocks=12),))
    assert constraints.predicted_memory_fits(config, deep) is None


def test_a_program_that_needs_more_than_there_is_may_stay_there() -> None:
    profile = replace(a_host_profile(), machine=a_machine(memory_bytes=400 * MB))
    assert constraints.predicted_memory_fits({"batch_size": 32, "amp": "off"}, profile) is None
    assert constraints.predicted_memory_fits({"batch_size": 64}, profile) is not None


def test_what_was_not_seen_is_no_reason_against_a_batch() -> None:
    profile = on_a_small_machine(memory=a_host_memory(activation_bytes=None))
    assert constraints.predicted_memory_fits({"batch_size": 4096}, profile) is None


def test_the_constraint_is_asked_for_every_configuration() -> None:
    assert constraints.predicted_memory_fits in constraints.CONSTRAINTS
    profile = a_gpu_profile(a_machine(cuda=True, gpus=(A_GPU,)))
    assert constraints.predicted_memory_fits({"batch_size": 2**19}, profile) is None
