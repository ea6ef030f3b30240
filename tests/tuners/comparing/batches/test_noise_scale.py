"""The noise scale of running programs: a real one whose noise is known, and runs that were made up."""

import gc
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from builders import a_loader, a_profile, a_run, an_optimizer
from torch.utils.data import DataLoader, Dataset

from advisor.profiles.derived.epochs import batches_per_update
from advisor.profiles.facts.profile import Profile, RunFacts
from advisor.profiles.hooks.step.clock import Clock
from advisor.profiles.hooks.watch import Watch
from advisor.tuners.comparing.batches.goodput import NoiseScale
from advisor.tuners.comparing.batches.noise_scale import (
    ROUNDS,
    STEPS,
    clipped,
    measure_noise_scale,
    other_sizes,
)
from advisor.tuners.knob import Value
from advisor.tuners.knobs.batch_size import BatchSize
from advisor.tuners.supervision.failures import Failure, TrialFailed
from advisor.tuners.trial.messages import TrialOutcome

PRESENT = 32
GRADIENT, NOISE = 1.0, 100.0  # squared; of the runs made up

Norms = Callable[[int, int, int], list[float]]


def made_up(batch: int, steps: int, seed: int, noise: float = NOISE) -> list[float]:
    """Norms of gradients of a known noise scale, with a spread of their own."""
    draw = random.Random(seed * 100_000 + batch)
    squared = GRADIENT + noise / batch
    return [math.sqrt(squared * draw.uniform(0.8, 1.2)) for _ in range(steps)]


@dataclass
class Session:
    """A program that has ended: it gives its outcome at once."""

    norms: Sequence[float]
    refused: dict[str, str]

    def first_step(self) -> float:
        return 0.1

    def slot(self, steps: int, drop: int) -> None:
        return None

    def stop(self) -> TrialOutcome:
        return TrialOutcome("stopped", refused=self.refused, peak_bytes=1, grad_norms=tuple(self.norms))

    def kill(self) -> None:
        return None


@dataclass
class Programs:
    """Runs a program in this process, or looks its norms up, as an arena would start it."""

    norms: Norms
    max_steps: int | None = None
    fails: dict[int, Failure] = field(default_factory=dict)
    refused: dict[int, dict[str, str]] = field(default_factory=dict)
    started: list[int] = field(default_factory=list)
    now: float = 0.0

    def clock(self) -> float:
        return self.now

    def start(self, config: Mapping[str, Value], number: int, **options: Any) -> Session:
        batch = int(config["batch_size"])
        self.started.append(batch)
        if batch in self.fails:
            raise TrialFailed(self.fails[batch])
        norms = self.norms(batch, options["learning_steps"], options["seed_offset"])
        return Session(norms, self.refused.get(batch, {}))


def measured(
    programs: Programs, profile: Profile | None = None, **options: Any
) -> tuple[NoiseScale | None, list[str]]:
    said: list[str] = []
    found = measure_noise_scale(
        programs,  # type: ignore[arg-type]  # made up
        {"batch_size": PRESENT},
        profile or program(),
        say=said.append,
        **options,
    )
    return found, said


def program(summed: bool = False, samples: float = PRESENT, **loader: Any) -> Profile:
    facts = {"batch_size": PRESENT, "dataset_length": 1_000_000, "drop_last": True, **loader}
    return a_profile(
        loader=a_loader(**facts),
        optimizers=(an_optimizer("SGD"),),
        run=RunFacts(sum_reduced_loss=summed, samples_per_step=samples, sample_source="loader"),
    )


class Points(Dataset[torch.Tensor]):
    """Rows that are fetched a whole batch at a time."""

    def __init__(self, rows: torch.Tensor) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitems__(self, indices: list[int]) -> torch.Tensor:
        return self.rows[indices]


def as_it_is(batch: Any) -> Any:
    return batch


class Distance(torch.nn.Module):
    """Half the square distance of a batch from a parameter, on average."""

    def __init__(self, dimensions: int) -> None:
        super().__init__()
        self.centre = torch.nn.Parameter(torch.zeros(dimensions))

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return (self.centre - batch).square().sum(1).mean() / 2


class Quadratic:
    """Points with a known mean and spread, and a parameter that is drawn to them.

    The gradient is the parameter's distance from the mean, its noise the spread of the points.
    """

    def __init__(self, seed: int = 1, dimensions: int = 20, most: float | None = None) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.points = torch.randn(4096, dimensions, generator=generator) + 1 / math.sqrt(dimensions)
        self.most = most
        gradient = self.points.mean(0).square().sum()  # at 0
        self.noise_scale = float(self.points.var(0).sum() / gradient)

    def __call__(self, batch: int, steps: int, seed: int) -> list[float]:
        """Its norms under the real hooks, with the batch size set by the real knob."""
        run = a_run({"batch_size": PRESENT}, batch_size=BatchSize())
        run.configure({"batch_size": batch})
        watch = Watch(run, Clock(lambda step: None), seed=seed)
        watch.num_norms = 64
        watch.install()
        try:
            self.train(steps)
            assert run.unanswered() == []
            return watch.grad_norms()
        finally:
            watch.remove()

    def train(self, steps: int) -> None:
        model = Distance(self.points.shape[1])
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
        left = steps
        while left:
            for batch in DataLoader(Points(self.points), PRESENT, shuffle=True, collate_fn=as_it_is):
                optimizer.zero_grad()
                model(batch).backward()
                if self.most is not None:
                    torch.nn.utils.clip_grad_norm_(model.parameters(), self.most)
                optimizer.step()
                left -= 1
                if not left:
                    return


@pytest.fixture(scope="module")
def few_objects() -> None:
    """Hide what exists already from the hooks' search for the owner of the parameters, which takes long."""
    Quadratic()(PRESENT, 1, seed=0)  # torch imports the rest of itself at the first update
    gc.freeze()


@pytest.mark.usefixtures("few_objects")
def test_the_known_noise_scale_of_real_models_is_found() -> None:
    models = [Quadratic(seed) for seed in range(1, 6)]
    inside = 0
    for model in models:
        found, said = measured(Programs(model), program(dataset_length=4096))
        assert found is not None, said
        assert found.estimate == pytest.approx(model.noise_scale, rel=0.3)
        inside += found.low <= model.noise_scale <= found.high
    assert inside >= 4  # of 5 at a nominal 90 %


@pytest.mark.usefixtures("few_objects")
def test_a_real_model_that_clips_its_gradients_gives_no_number() -> None:
    found, said = measured(Programs(Quadratic(most=0.5)), program(dataset_length=4096))
    assert found is None
    assert "as clipping leaves them" in said[0]


def test_clipping_that_meets_only_some_steps_is_seen_too() -> None:
    def cut(batch: int, steps: int, seed: int) -> list[float]:
        return [min(norm, 2.1) for norm in made_up(batch, steps, seed)]

    norms = cut(PRESENT, STEPS, 0)
    assert 3 <= norms.count(2.1) < STEPS / 2
    assert measured(Programs(cut))[0] is None


def test_norms_that_are_close_are_not_taken_for_clipped_ones() -> None:
    assert not clipped([1.0, 1.0002, 1.0004, 1.0006])
    assert clipped([0.3, 1.0, 1.0, 1.0 - 5e-7])
    assert not clipped([]) and not clipped([1.0])


def test_the_present_batch_is_compared_with_a_four_times_larger_one_from_several_seeds() -> None:
    programs = Programs(made_up)
    found, _ = measured(programs)
    assert programs.started == [PRESENT, 4 * PRESENT] * ROUNDS
    assert found is not None and found.estimate == pytest.approx(NOISE / GRADIENT, rel=0.25)


def test_a_batch_that_does_not_fit_gives_way_to_a_smaller_one() -> None:
    full = Failure("oom_host", "no memory")
    programs = Programs(made_up, fails={128: full, 64: full})
    found, _ = measured(programs)
    assert programs.started[-1] == PRESENT // 4
    assert found is not None and found.estimate == pytest.approx(NOISE / GRADIENT, rel=0.25)


def test_a_program_that_fails_for_another_reason_ends_the_attempt() -> None:
    programs = Programs(made_up, fails={128: Failure("user_error", "ValueError: 32 expected")})
    found, said = measured(programs)
    assert found is None and programs.started == [32, 128]
    assert said == ["the gradient noise scale is not known: ValueError: 32 expected"]


def test_a_batch_size_that_was_refused_is_not_compared() -> None:
    refused = {128: {"batch_size": "the DataLoader has a batch sampler of its own"}}
    found, said = measured(Programs(made_up, refused=refused))
    assert found is None and "batch sampler of its own" in said[0]


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        (a_profile(), "the batch size cannot be changed"),
        (program(batch_size=None), "the batch size cannot be changed"),
        (program(own_batch_sampler=True), "the batch size cannot be changed"),
        (
            a_profile(loader=a_loader(), optimizers=(an_optimizer("LBFGS", closure=True),)),
            "several times per update",
        ),
    ],
)
def test_without_a_batch_to_change_nothing_is_started(profile: Profile, reason: str) -> None:
    programs = Programs(made_up)
    found, said = measured(programs, profile)
    assert found is None and programs.started == []
    assert reason in said[0]


def test_a_program_without_gradients_in_sight_gives_no_number() -> None:
    found, said = measured(Programs(lambda batch, steps, seed: []))
    assert found is None and "no gradient was seen" in said[0]


def test_gradients_of_a_summed_loss_are_those_of_its_mean() -> None:
    def grown(batch: int, steps: int, seed: int) -> list[float]:
        return [norm * batch for norm in made_up(batch, steps, seed)]

    mean, _ = measured(Programs(made_up))
    summed, _ = measured(Programs(grown), program(summed=True))
    assert mean is not None and summed is not None
    assert summed.estimate == pytest.approx(mean.estimate)
    found, said = measured(Programs(grown))  # where nobody saw that it is a sum
    assert found is None and "grow with the batch" in said[0]


def test_accumulated_batches_count_together() -> None:
    profile = program(samples=4 * PRESENT)
    assert batches_per_update(profile) == 4
    found, _ = measured(Programs(lambda batch, steps, seed: made_up(4 * batch, steps, seed)), profile)
    assert found is not None and found.estimate == pytest.approx(NOISE / GRADIENT, rel=0.25)


def test_models_that_see_each_batch_several_times_do_not_accumulate() -> None:
    profile = a_profile(loader=a_loader(), run=RunFacts(samples_per_step=96.0, sample_source="root"))
    assert batches_per_update(profile) == 1


def test_the_smaller_last_batch_of_an_epoch_is_left_out() -> None:
    length = 1000  # 31 whole batches of 32 and one of 8; 7 of 128 and one of 104

    def with_rest(batch: int, steps: int, seed: int) -> list[float]:
        norms = made_up(batch, steps, seed)
        per_epoch = length // batch + 1
        return [norm * (9 if (step + 1) % per_epoch == 0 else 1) for step, norm in enumerate(norms)]

    ragged = program(dataset_length=length, drop_last=False)
    found, said = measured(Programs(with_rest), ragged)
    assert found is not None, said
    assert measured(Programs(with_rest), program(dataset_length=length))[0] != found


def test_without_time_nothing_is_started_and_with_little_one_round_is_all() -> None:
    late = Programs(made_up)
    found, said = measured(late, deadline=-1.0)
    assert found is None and late.started == []
    assert "no time was left" in said[0]

    def slow(batch: int, steps: int, seed: int) -> list[float]:
        programs.now += 5.0
        return made_up(batch, steps, seed)

    programs = Programs(slow)
    measured(programs, deadline=9.0)
    assert programs.started == [32, 128]


def test_a_short_program_is_run_for_what_it_has() -> None:
    asked: list[int] = []

    def short(batch: int, steps: int, seed: int) -> list[float]:
        asked.append(steps)
        return made_up(batch, steps, seed)

    measured(Programs(short, max_steps=20))
    assert set(asked) == {19}


def test_other_sizes_stay_within_the_dataset_and_the_limit() -> None:
    assert other_sizes(a_loader(batch_size=32, dataset_length=1000)) == [128, 64, 8, 16]
    assert other_sizes(a_loader(batch_size=32, dataset_length=100)) == [64, 8, 16]
    assert other_sizes(a_loader(batch_size=6, dataset_length=1000), max_batch=12) == [12, 3]
    assert other_sizes(a_loader(batch_size=None)) == []
