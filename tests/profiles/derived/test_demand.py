from dataclasses import replace

import pytest
from builders import a_gpu_profile, a_loader, a_machine, a_profile

from advisor.profiles.derived.demand import cpu_demand, cpu_use, feeding
from advisor.profiles.facts.observed import RankFacts
from advisor.profiles.facts.profile import Profile, RunFacts

TWO_THREADS = RunFacts(num_threads=2)


def test_workers_ask_for_the_part_of_a_cpu_that_their_items_compute() -> None:
    profile = a_profile(loader=a_loader(num_workers=4, cpu_share=0.25), run=TWO_THREADS)
    assert cpu_demand(profile) == 3.0


def test_every_rank_brings_its_threads_and_its_workers() -> None:
    profile = a_profile(
        loader=a_loader(num_workers=1, cpu_share=1.0),
        run=TWO_THREADS,
        ranks=(RankFacts(0, 10.0), RankFacts(1, 10.0)),
    )
    assert cpu_demand(profile) == 6.0


def test_a_gpu_is_driven_by_one_thread() -> None:
    profile = a_gpu_profile(loader=a_loader(num_workers=2, cpu_share=1.0), run=RunFacts(num_threads=16))
    assert cpu_demand(profile) == 3.0


def test_without_workers_the_threads_are_all() -> None:
    assert cpu_demand(a_profile(loader=a_loader(), run=TWO_THREADS)) == 2.0
    assert cpu_demand(a_profile(run=TWO_THREADS)) == 2.0


def test_an_unknown_share_or_number_of_threads_gives_no_demand() -> None:
    assert cpu_demand(a_profile(loader=a_loader(num_workers=2), run=TWO_THREADS)) is None
    assert cpu_demand(a_profile(loader=a_loader(num_workers=2, cpu_share=1.0))) is None
    assert cpu_demand(Profile(a_machine())) is None


def test_workers_of_cheap_items_are_idle_most_of_the_time() -> None:
    loader = a_loader(num_workers=4, cpu_share=1.0, item_ms=0.1, collate_ms=0.8)
    profile = a_profile(phases_ms={}, loader=loader, run=TWO_THREADS)
    assert cpu_demand(profile) == 6.0
    assert cpu_use(profile) == pytest.approx(2.4)  # 32 items of 0.1 ms and 0.8 ms in steps of 10 ms
    slow = replace(profile, loader=replace(loader, item_ms=5.0))
    assert cpu_use(slow) == 6.0


def test_a_step_that_accumulates_needs_several_batches() -> None:
    profile = a_profile(
        phases_ms={"input_wait": 2.0},
        loader=a_loader(item_ms=0.1, collate_ms=0.5, num_workers=2),
        run=RunFacts(samples_per_step=128.0),
    )
    fed = feeding(profile)
    assert fed is not None
    assert fed.items_ms == pytest.approx(12.8)
    assert (fed.collate_ms, fed.rest_ms) == (2.0, 8.0)
    assert fed.per_process_ms == pytest.approx(7.4)


def test_items_that_are_whole_batches_are_counted_once() -> None:
    loader = a_loader(batch_size=None, item_ms=3.0)
    fed = feeding(a_profile(phases_ms={}, loader=loader, run=RunFacts(samples_per_step=64.0)))
    assert fed is not None and fed.items_ms == 3.0


def test_batches_of_an_own_sampler_are_as_large_as_what_steps_used() -> None:
    loader = a_loader(batch_size=None, own_batch_sampler=True, item_ms=0.1)
    fed = feeding(a_profile(phases_ms={}, loader=loader, run=RunFacts(samples_per_step=20.0)))
    assert fed is not None and fed.items_ms == pytest.approx(2.0)
    assert feeding(a_profile(phases_ms={}, loader=loader)) is None


def test_reading_files_is_unknown_until_bytes_were_counted() -> None:
    def reads(**facts: object) -> bool | None:
        fed = feeding(a_profile(phases_ms={}, loader=a_loader(item_ms=1.0, **facts)))
        assert fed is not None
        return fed.reads_files

    assert reads() is None
    assert reads(item_read_bytes=0) is False
    assert reads(item_read_bytes=4096) is True
    assert reads(network_filesystem="nfs4") is True
