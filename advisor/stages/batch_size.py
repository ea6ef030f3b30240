"""Where the batch size stands in a tuning run: kept, searched, added to the nominee, or only proposed."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from advisor.base.settings import Progress, Settings
from advisor.profiles.derived.epochs import batches_per_update
from advisor.profiles.facts.profile import Profile
from advisor.result import wording
from advisor.result.document import BatchSizes, Interval, Trial
from advisor.stages.larger_batch import BatchAdvice, Batching, expected_s, gaining, rated
from advisor.stages.trials import as_ratio
from advisor.stages.tried_batches import tried_batches
from advisor.tuners.comparing.batches.batch_throughput import Measured, propose_batches
from advisor.tuners.comparing.batches.goodput import Goodput, NoiseScale, efficiency, preferred
from advisor.tuners.comparing.batches.noise_scale import measure_noise_scale
from advisor.tuners.comparing.batches.safe_batch import SafeBatch, largest_safe_batch
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.knob import Value
from advisor.tuners.knobs import KNOBS
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.space.memory_model import memory_limit
from advisor.tuners.space.rank_constraints import ONE_PROCESS
from advisor.tuners.space.space import NotTried, Space, build_space

NAMES = ("batch_size", "lr_scaling")
QUARTILE = 0.25  # of what is known about goodput: the one that decides (measurement.md, section 7)


@dataclass
class Batches:
    """Everything of a run that is about the batch size.

    Attributes:
        settings: What the user allows.
        progress: Is told what is measured.
        noise: The gradient noise scale, once it was measured.
        advice: What was found out about larger batches after the search.
        measured: Throughput of larger batches that are only proposed.
        safe: The largest batch that fits.
        trials: What the run has tried so far; they tell of the batch where it is searched.
    """

    settings: Settings
    progress: Progress
    noise: NoiseScale | None = None
    advice: BatchAdvice = field(default_factory=BatchAdvice)
    measured: list[Measured] = field(default_factory=list)
    safe: SafeBatch | None = None
    trials: Sequence[Trial] = ()
    _wide: Space | None = None
    _per_update: int = 1
    _notes: list[str] = field(default_factory=list)

    @property
    def searched(self) -> bool:
        """Whether it is a knob of the search: it was named, or throughput alone counts."""
        if self.settings.keep_batch:
            return False
        named = set(NAMES) & self.settings.knobs.keys()
        return bool(named) or self.settings.objective == "throughput"

    @property
    def added(self) -> bool:
        """Whether a larger one may be added to what the search found."""
        settings = self.settings
        restricted = settings.keep_batch or settings.knobs or self._held
        return settings.objective == "goodput" and not restricted

    @property
    def _held(self) -> str | None:
        """A fixed knob by which the batch is decided, too: of an update, or over several processes."""
        fixed = self.settings.fixed
        if fixed.get("strategy", "single") not in ONE_PROCESS:
            return "strategy"
        return next((name for name in ("accumulation", *NAMES) if name in fixed), None)

    def complete(self, space: Space) -> Space:
        """The space with the batch in every configuration, though not among what is searched."""
        if self.searched:
            self._wide = space if "batch_size" in space.present else None
            return space
        told = [entry for entry in space.not_tried if entry.knob not in NAMES]
        settings, held = self.settings, self._held
        wanted = settings.objective == "goodput" and not settings.keep_batch and not settings.knobs
        if wanted and held and "batch_size" not in settings.fixed:
            told.append(NotTried("batch_size", None, f"{held} is fixed, and the batch goes with it"))
        space = replace(space, not_tried=told)
        if not self.added:
            return space
        wide = build_space(
            KNOBS, space.profile, named=dict.fromkeys(NAMES), fixed=settings.fixed,
            max_batch=settings.max_batch,
        )  # fmt: skip
        if "batch_size" not in wide.choices:
            return space
        self._wide = wide
        present = {name: wide.present[name] for name in NAMES if name in wide.present}
        return replace(space, present=space.present.with_(present))

    def learn_worth(self, arena: Arena, space: Space, profile: Profile, deadline: float) -> None:
        """Measure the noise scale before a search by goodput that has the batch among its knobs."""
        self._per_update = batches_per_update(profile)
        if self.settings.objective != "goodput" or "batch_size" not in space.choices:
            return
        self._learn(arena, space, profile, deadline)

    def can_weigh(
        self, arena: Arena, space: Space, profile: Profile, config: Configuration, deadline: float
    ) -> bool:
        """Whether it is known what a sample is worth under a configuration; learnt now where it was not."""
        changes_batch = config.get("batch_size") != space.present.get("batch_size")
        if self.settings.objective == "goodput" and changes_batch and self.noise is None:
            self._learn(arena, space, profile, deadline)
            return self.noise is not None
        return True

    def _learn(self, arena: Arena, space: Space, profile: Profile, deadline: float) -> None:
        self.progress.say("estimating what a larger batch learns per sample")
        self.noise = measure_noise_scale(
            arena, space.present, profile,
            max_batch=self.settings.max_batch, deadline=deadline, say=self._note,
        )  # fmt: skip

    def _note(self, text: str) -> None:
        self.progress.say(text)
        self._notes.append(text)

    def worth(self, config: Mapping[str, Value], present: Mapping[str, Value]) -> float:
        """Log of what a sample is worth beside one of the present batch; 0 where that is not known."""
        return self._worth(config, present, lambda noise, larger: noise.estimate)

    def sure_worth(self, config: Mapping[str, Value], present: Mapping[str, Value]) -> float:
        """The same at its lower quartile."""
        return self._worth(
            config, present, lambda noise, larger: noise.quantile(QUARTILE if larger else 1 - QUARTILE)
        )

    def extend(
        self,
        arena: Arena,
        profile: Profile,
        nominee: Configuration,
        deadline: float,
        startup_s: float,
        alone: Callable[[], None],
    ) -> Configuration:
        """The nominee with a larger batch, where goodput and a short run speak for it.

        ``alone`` is called before a process is started: what still runs would take of the memory that a batch
        may have.
        """
        if self._wide is None or self.settings.objective != "goodput":
            return nominee
        batching = Batching(
            arena, self._wide, profile, self.settings.min_gain, self.settings.max_batch, deadline,
            self.progress.say,
        )  # fmt: skip
        if self.searched:
            return self._proven(batching, nominee, self._wide, alone)
        if arena.clock() + expected_s(arena, startup_s) > deadline:
            self.advice = BatchAdvice(reason=f"{wording.UNJUDGED}; give a longer --budget")
            return nominee
        alone()
        self._per_update = batches_per_update(profile)
        self.advice = batching.advise(nominee)
        self.noise = self.advice.noise
        self.measured = list(self.advice.measured)
        chosen = self.advice.chosen
        if chosen is None:
            return nominee
        rule = {"lr_scaling": chosen.lr_scaling} if "lr_scaling" in self._wide.present else {}
        return nominee.with_({"batch_size": chosen.batch_size, **rule})

    def _proven(
        self, batching: Batching, nominee: Configuration, wide: Space, alone: Callable[[], None]
    ) -> Configuration:
        """The nominee of a search by goodput: a larger batch must learn as much.

        Where it does not, a smaller one of those that were tried and gain is taken, or the present one stays.
        """
        present, batch = self.present, nominee.get("batch_size")
        if present is None or not isinstance(batch, int) or batch <= present:
            return nominee
        if self.noise is None:
            self.advice = BatchAdvice(reason=self._notes[-1] if self._notes else "no noise scale")
            return wide.without(nominee, "batch_size")
        self._take_up()
        rules = {each.batch_size: each.lr_scaling for each in self.measured}
        alone()
        smaller = [
            (each.batch, rules[each.batch])
            for each in preferred(self._goodputs(), self.settings.min_gain)
            if present < each.batch < batch
        ]
        wanted = [(batch, str(nominee.get("lr_scaling", "none"))), *smaller]
        found = batching.first_that_learns(nominee, wanted, present)
        self.advice = BatchAdvice(reason=found.reason, refused=batch if found.reason else None)
        if found.taken is None:
            return wide.without(nominee, "batch_size")
        taken, rule = found.taken
        learning = {"lr_scaling": rule} if "lr_scaling" in nominee else {}
        return nominee.with_({"batch_size": taken, **learning})

    def propose(self, arena: Arena, base: Configuration, deadline: float, startup_s: float = 0.0) -> None:
        """Measure larger batches beside the verdict, where there was no time before it."""
        self._take_up()
        wanted = self.added or self.advice.reason
        if self._wide is not None and wanted and not self.measured:
            self.measured = propose_batches(arena, self._wide, base, deadline, self.progress.say, startup_s)
        if self.is_unjudged and self.measured and not gaining(self.measured, self.settings.min_gain):
            self.advice = BatchAdvice()  # there is nothing to judge

    @property
    def is_unjudged(self) -> bool:
        """Whether larger batches were not looked at by goodput, for lack of time alone."""
        return self.advice.reason.startswith(wording.UNJUDGED)

    def find_largest(self, arena: Arena, profile: Profile, base: Configuration, deadline: float) -> None:
        """Run the largest batch that memory allows, where there is time left."""
        limit = memory_limit(profile, self.settings.max_memory)
        if self._wide is None or limit is None or arena.clock() > deadline:
            return
        self.safe = largest_safe_batch(
            arena,
            self._wide,
            profile,
            limit,
            self.settings.max_batch,
            deadline,
            self.progress.say,
            base=base,
            clock=arena.clock,
        )

    @property
    def present(self) -> int | None:
        """The batch size of the program, where another may be taken."""
        found = None if self._wide is None else self._wide.present.get("batch_size")
        return found if isinstance(found, int) else None

    def is_changed(self, batch: Value | None) -> bool:
        """Whether this is another batch size than the program's."""
        return batch is not None and self.present is not None and batch != self.present

    def known(self) -> BatchSizes | None:
        """What the result tells of other batch sizes."""
        present = self.present
        if present is None:
            return None
        self._take_up()
        goodputs = self._goodputs()
        best = preferred(goodputs)
        fast = max(self.measured, key=lambda each: each.estimate.estimate, default=None)
        if fast is not None and fast.estimate.low <= 0:
            fast = None
        noise, safe = self.noise, self.safe
        return BatchSizes(
            present=present,
            fastest=None if not self.measured else present if fast is None else fast.batch_size,
            fastest_ratio=None if fast is None else as_ratio(fast.estimate),
            best_goodput=None if not goodputs else best[0].batch if best else present,
            noise_scale=None
            if noise is None or math.isinf(noise.high)
            else Interval(estimate=noise.estimate, low=noise.low, high=noise.high),
            noise_scale_at_least=noise.low if noise is not None and math.isinf(noise.high) else None,
            largest_safe=None if safe is None else safe.batch_size,
            peak_bytes=None if safe is None else safe.peak_bytes,
            limit_bytes=None if safe is None else safe.limit_bytes,
            limited_by=None if safe is None else safe.limited_by,
            said="" if safe is None else safe.sentence,
        )

    def _take_up(self) -> None:
        """What a search that had the batch among its knobs has measured of it, instead of measuring again."""
        if self._wide is None or not self.searched or self.settings.objective == "memory":
            return  # by memory the trials compare peaks
        self.measured = tried_batches(self.trials, self._wide.present) or self.measured

    def _goodputs(self) -> Sequence[Goodput]:
        if not self.searched or self.noise is None or self.present is None:
            return self.advice.goodputs
        return rated(self.measured, self.present, self._per_update, self.noise)

    def _worth(
        self,
        config: Mapping[str, Value],
        present: Mapping[str, Value],
        scale: Callable[[NoiseScale, bool], float],
    ) -> float:
        before, after = present.get("batch_size"), config.get("batch_size")
        if self.noise is None or not before or not after or before == after:
            return 0.0
        scaled = scale(self.noise, int(after) > int(before))
        worth = math.log(efficiency(self._per_update * int(after), self._per_update * int(before), scaled))
        return min(0.0, worth)  # the noise scale of first steps is small: it would speak for smaller batches
