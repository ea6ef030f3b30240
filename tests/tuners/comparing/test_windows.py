from dataclasses import replace

import pytest
from builders import a_loader, a_profile

from advisor.profiles.derived.epochs import Epochs, epochs_of
from advisor.profiles.facts.profile import LoaderFacts, RunFacts
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.comparing.ways import WINDOWS
from advisor.tuners.comparing.windows import EPOCH_S, queue_depth, window_steps
from advisor.tuners.knob import Value
from advisor.tuners.knobs import KNOBS


def length(depth: int = 0, epoch: int | None = None, most: int | None = None, **more: float) -> int:
    step_s, period = more.get("step_s", 0.01), int(more.get("period", 1))
    return window_steps(
        depth=depth, slot_steps=5, step_s=step_s, period=period, epoch=epoch, most=most
    )  # fmt: skip


def known(loader: LoaderFacts, samples_per_step: float, source: str = "loader") -> Epochs | None:
    run = RunFacts(samples_per_step=samples_per_step, sample_source=source)
    return epochs_of(a_profile(phases_ms={}, loader=loader, run=run))


LOADER = a_loader(dataset_length=650, batch_size=16, drop_last=True)


def test_a_window_is_four_queues_long() -> None:
    assert length(depth=32) == 128
    assert length(depth=0) == 12
    assert length(depth=0, period=5) == 15


@pytest.mark.parametrize(
    ("startup_s", "seconds"), [(0.0, 0.32), (4.0, 2.0), (60.0, 3.0)], ids=["quick", "usual", "slow"]
)
def test_a_process_of_its_own_is_measured_as_long_as_its_start_makes_it_worth(
    startup_s: float, seconds: float
) -> None:
    arena = Arena(None, KNOBS, {}, step_s=0.01, startup_s=startup_s, queue_depth=queue_depth)  # type: ignore[arg-type]  # nothing is started
    four: dict[str, Value] = {"num_workers": 4}
    assert arena.window_steps(four, fresh=True)[1] == pytest.approx(seconds / 0.01)
    assert arena.window_steps(four)[1] == 32


def test_a_short_epoch_counts_whole() -> None:
    assert length(depth=8, epoch=40) == 40
    assert length(depth=32, epoch=40) == 160
    assert length(depth=8, epoch=3) == 33
    assert length(epoch=10, period=4) == 20


def test_a_window_that_is_longer_than_an_epoch_holds_whole_ones() -> None:
    assert length(depth=32, epoch=100, step_s=EPOCH_S / 10) == 200
    assert length(depth=32, epoch=129, step_s=EPOCH_S / 10) == 128


def test_a_long_epoch_does_not() -> None:
    assert length(depth=8, epoch=299, step_s=EPOCH_S / 300) == 299
    assert length(depth=8, epoch=301, step_s=EPOCH_S / 300) == 32


def test_a_program_that_ends_has_as_many_whole_epochs_as_it_can() -> None:
    assert length(depth=32, epoch=40, most=130) == 120
    assert length(depth=32, epoch=40, most=30) == 30
    assert length(depth=32, most=-5, period=2) == 2


def test_epochs_have_the_steps_of_the_loader() -> None:
    epochs = known(LOADER, 16)
    assert epochs is not None
    assert epochs.steps({}) == 40
    assert epochs.steps({"batch_size": 64}) == 10
    assert epochs.steps({"batch_size": 5000}) == 1
    whole = known(replace(LOADER, drop_last=False), 15.8)  # the last batch has ten
    assert whole is not None and whole.steps({}) == 41


@pytest.mark.parametrize(("samples", "steps"), [(64, 10), (8, 80)])
def test_a_step_may_take_several_batches_or_a_batch_several_steps(samples: float, steps: int) -> None:
    epochs = known(LOADER, samples)
    assert epochs is not None and epochs.steps({}) == steps


def test_what_is_not_known_is_not_guessed() -> None:
    assert known(replace(LOADER, own_sampler=True), 16) is None
    assert known(replace(LOADER, own_batch_sampler=True), 16) is None
    assert known(replace(LOADER, dataset_length=None), 16) is None
    assert known(LOADER, 16, source="root") is None
    assert epochs_of(a_profile(phases_ms={}, loader=LOADER)) is None
    epochs = known(LOADER, 16)
    assert epochs is not None and epochs.steps({"ranks": 2}) is None


def test_what_is_kept_in_one_epoch_is_measured_in_the_next() -> None:
    arena = Arena(None, KNOBS, {}, step_s=0.02, queue_depth=queue_depth)  # type: ignore[arg-type]
    kept: dict[str, int | str] = {"in_memory_cache": "memory", "num_workers": 4}
    arena.epochs = known(LOADER, 16)
    assert arena.window_steps(kept) == (40, 40)
    assert arena.window_steps({**kept, "batch_size": 130}) == (8, 35)
    assert arena.window_steps({**kept, "in_memory_cache": "off"}) == (8, 40)


def test_workers_of_the_program_count_also_where_nobody_searches_for_their_number() -> None:
    arena = Arena(None, KNOBS, {"num_workers": 4}, queue_depth=queue_depth)  # type: ignore[arg-type]
    assert arena.window_steps({"malloc": "default"})[0] == 8
    assert arena.how({"malloc": "default"}, {"malloc": "jemalloc"}) == WINDOWS


def test_an_arena_measures_whole_epochs_once_it_knows_them() -> None:
    arena = Arena(None, KNOBS, {}, step_s=0.02, queue_depth=queue_depth)  # type: ignore[arg-type]
    four = {"num_workers": 4, "prefetch_factor": 2}
    assert arena.window_steps(four) == (8, 32)
    arena.epochs = known(LOADER, 16)
    assert arena.window_steps(four) == (8, 40)
