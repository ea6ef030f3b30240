"""What may be tried: knobs, narrowed by the profile, by the user, and by constraints over all of them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from math import prod

from advisor.base.errors import UsageError
from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.replayed import Share
from advisor.tuners.knob import AnyKnob, Config, Refused, Value
from advisor.tuners.mechanisms.compiling import NEED_COMPILE, compiles
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.space.constraints import (
    CONSTRAINTS,
    SUMMED,
    UNLESS_NAMED,
    batch_ratio,
    learning_rate_rule,
    num_workers,
)
from advisor.tuners.space.fixed import check_fixed
from advisor.tuners.space.form_constraints import inert_beside
from advisor.tuners.space.rank_constraints import (
    ONE_PROCESS,
    STRATEGY_SETTINGS,
    num_threads,
    without_its_strategy,
)

NEED_WORKERS = (
    "prefetch_factor", "persistent_workers", "multiprocessing_context", "in_order", "sharing_strategy",
)  # fmt: skip
NEED_BATCH = ("batch_size", "lr_scaling")
OF_RANKS = ("strategy", "ranks", *STRATEGY_SETTINGS)
FOR_REQUESTS = "it acts on requests to a trained model: `--objective latency`"
ONE_DEVICE = "one device: several ranks on its CPUs are tried when `--ranks 2` asks for them"


@dataclass(frozen=True)
class NotTried:
    """A knob, or one value of it, that is left out, and why."""

    knob: str
    value: Value | None
    reason: str


@dataclass(frozen=True)
class Space:
    """All configurations that may be tried on one program.

    Attributes:
        present: The baseline: what the program does by itself, or what the user fixed.
        own: What the program does by itself, fixed knobs included where it is known.
        choices: What to try of each searched knob, the present setting first; in the order of ids.
        not_tried: What was left out.
        profile: The program as it is; constraints compare with it.
        named: Knobs whose values the user named, or the objective asks for: habits do not restrict those.
    """

    present: Configuration
    own: Configuration
    choices: dict[str, list[Value]]
    not_tried: list[NotTried]
    profile: Profile
    named: frozenset[str] = frozenset()

    @property
    def size(self) -> int:
        """Number of combinations of all choices, also of those that constraints exclude."""
        return prod(len(values) for values in self.choices.values())

    def complete(self, partial: Config) -> Configuration:
        """``partial`` with the present setting for the rest, in the one form in which it is tried.

        Knobs without effect beside the others go back to their present setting. The learning rate's rule
        follows the batch size, and how workers share tensors follows whether there are any, whatever
        ``partial`` says, unless a user named the values to try.
        """
        return self._effective(self._merged(partial, decided="lr_scaling" in self.named))

    def without(self, config: Configuration, knob: str) -> Configuration:
        """``config`` with one knob back at its present setting, and with it what does nothing without it."""
        return self._effective(config.with_({knob: self.present[knob]}))

    def check(self, config: Config) -> str | None:
        """Why this configuration is not allowed as it is; ``None`` if it is. The present one always is."""
        full = self._merged(config, decided="lr_scaling" in config)
        idle = {name for name in self._inert(full) if full[name] == self.present[name]}  # and was so before
        full = Configuration({name: value for name, value in full.items() if name not in idle})
        habits = [
            rule for name, rule in UNLESS_NAMED.items() if name in self.choices and name not in self.named
        ]
        for rule in (*CONSTRAINTS, *habits):
            reason = rule(full, self.profile)
            # what the baseline does already is no reason against a change elsewhere
            if reason and reason != rule(self.present, self.profile):
                return reason
        return None

    def _effective(self, config: Configuration) -> Configuration:
        return config.with_({name: self.present[name] for name in self._inert(config)})

    def _merged(self, partial: Config, *, decided: bool) -> Configuration:
        config = {**self.present, **partial}
        if not decided and "lr_scaling" in self.choices and batch_ratio(config, self.profile) != 1.0:
            config["lr_scaling"] = learning_rate_rule(self.profile)
        loader = self.profile.loader
        if "sharing_strategy" in self.choices and "sharing_strategy" not in self.named and loader is not None:
            config["sharing_strategy"] = self.choices["sharing_strategy"][num_workers(config, loader) > 0]
        several = str(config.get("strategy", "single")) not in ONE_PROCESS
        if several and config.get("ranks") == 1 and "ranks" in self.choices:
            config["ranks"] = max(self.choices["ranks"])
        return Configuration(config)

    def _inert(self, config: Config) -> list[str]:
        """Knobs of the configuration that do nothing beside the others."""
        loader = self.profile.loader
        inert: tuple[str, ...] = ()
        if loader is not None and num_workers(config, loader) == 0:
            inert += NEED_WORKERS
        if batch_ratio(config, self.profile) == 1.0:
            inert += ("lr_scaling",)
        if not compiles(config):
            inert += tuple(NEED_COMPILE)
        inert += inert_beside(config)
        if num_threads(config, self.profile) == 1:
            inert += ("omp_wait_policy",)
        strategy = str(config.get("strategy", "single"))
        if strategy in ONE_PROCESS:
            inert += ("ranks",)
        inert += tuple(name for name, beside in STRATEGY_SETTINGS.items() if strategy not in beside)
        return [name for name in inert if name in self.present]


def build_space(
    knobs: Mapping[str, AnyKnob],
    profile: Profile,
    *,
    named: Mapping[str, Sequence[Value] | None] | None = None,
    fixed: Mapping[str, Value] | None = None,
    keep_batch: bool = False,
    max_batch: int | None = None,
    detectable: float = 0.0,
    planned_steps: int | None = None,
    ranks: Sequence[int] = (),
    exempt: Collection[str] = (),
) -> Space:
    """Decide what may be tried.

    Args:
        knobs: The registry, by id.
        profile: What is known about the program and the machine.
        named: Knobs that the user asks for, with values or ``None`` for the knob's own choices; nothing
            named means every knob that applies. With the batch size goes the learning rate's rule.
        fixed: Settings for the baseline and all candidates alike; these knobs are not searched.
        keep_batch: Leave out the batch size and its learning rate.
        max_batch: Largest batch size to try.
        detectable: Smallest gain (share of the step, 0 to 1) that can be told from noise. A knob that was
            not named and cannot gain as much is left out.
        planned_steps: Steps that the user's training will make; the program's own length where ``None``.
        ranks: Numbers of workers to try; empty for what the machine has, which is more than one process
            only where several GPUs are, or a strategy is named.
        exempt: Knobs that habits of the search do not restrict, though nobody named their values.

    Raises:
        UsageError: An unknown knob, one both named and fixed, or a fixed value that cannot apply.
    """
    asked, settings = dict(named or {}), dict(fixed or {})
    _check_names(knobs, asked, settings)
    knobs, elsewhere = of_unit(knobs, profile, settings)
    if planned_steps is not None and profile.run is not None:
        profile = replace(profile, run=replace(profile.run, steps_total=planned_steps))
    own, not_tried, choices = _own(knobs, profile, asked, settings), list[NotTried](), {}
    check_fixed(knobs, settings, own, profile)
    names = set(asked or knobs) & set(knobs)
    not_tried += [NotTried(name, None, elsewhere) for name in asked if name not in knobs]
    decided = set(asked) & {"batch_size", "num_workers"}  # what follows a strategy is asked for by its name
    names |= {name for name in knobs if knobs[name].follows in decided}
    if "strategy" in asked and "strategy" in knobs:
        names.add("ranks")
    elif "strategy" not in knobs or (
        max(ranks, default=len(profile.machine.gpus)) < 2 and "strategy" not in settings
    ):
        names -= set(OF_RANKS) - set(asked)
        not_tried += [NotTried("strategy", None, ONE_DEVICE)] if not asked and "strategy" in knobs else []
    for name in sorted(names):
        if name in settings or (name not in asked and knobs[name].named_only):
            continue
        left_out, values = _choose(name, knobs[name], profile, asked, detectable, keep_batch)
        too_large = [v for v in values[1:] if name == "batch_size" and max_batch and int(v) > max_batch]
        left_out += [NotTried(name, v, f"more than --max-batch {max_batch}") for v in too_large]
        values = [value for value in values if value not in too_large]
        if name in asked or knobs[name].follows != "num_workers":  # which brings it where it is needed
            not_tried += left_out
        if len(values) > 1:
            choices[name] = values
    _settle_ranks(choices, settings, ranks)
    not_tried += [
        NotTried(name, None, without_its_strategy(name, profile))
        for name in asked if name in STRATEGY_SETTINGS and name not in choices
    ]  # fmt: skip
    explicit = frozenset([*exempt, *(name for name, values in asked.items() if values)])
    if "lr_scaling" in choices and "lr_scaling" not in explicit:
        rule = learning_rate_rule(profile)
        choices["lr_scaling"] = list(dict.fromkeys(["none", rule]))
        if rule == "none":
            not_tried.append(NotTried("lr_scaling", None, SUMMED))
    present = Configuration({**{name: values[0] for name, values in choices.items()}, **settings})
    return _without_hopeless(Space(present, own, choices, not_tried, profile, explicit))


def of_unit(
    knobs: Mapping[str, AnyKnob], profile: Profile, settings: Mapping[str, Value]
) -> tuple[dict[str, AnyKnob], str]:
    """The knobs for what this run is counted in, and why no others are.

    Raises:
        UsageError: One of the others is fixed.
    """
    kept = {name: knob for name, knob in knobs.items() if profile.unit in knob.units}
    reason = "it acts on a training, and requests are answered here" if profile.serves else FOR_REQUESTS
    for name in settings:
        if name not in kept:
            raise UsageError(f"{name} has no effect: {reason}", where=f"--fix {name}", hint="leave it out")
    return kept, reason


def _settle_ranks(
    choices: dict[str, list[Value]], settings: Mapping[str, Value], ranks: Sequence[int]
) -> None:
    """Try the numbers of ranks that were asked for, and the settings of those strategies that are tried."""
    if ranks and "ranks" in choices:
        choices["ranks"] = [1, *(number for number in ranks if number > 1)]
    tried = [settings["strategy"]] if "strategy" in settings else choices.get("strategy", [])
    several = {str(name) for name in tried} - set(ONE_PROCESS)
    if not several:
        choices.pop("ranks", None)
    for name, beside in STRATEGY_SETTINGS.items():
        if name in choices and not several & set(beside):
            del choices[name]


def _check_names(
    knobs: Mapping[str, AnyKnob], asked: Mapping[str, object], settings: Mapping[str, object]
) -> None:
    for option, names in (("--knob", asked), ("--fix", settings)):
        for name in names:
            if name not in knobs:
                close = get_close_matches(name, knobs, n=1)
                meant = f"{option} {close[0]}, or " if close else ""
                raise UsageError(f"unknown knob '{name}'", where=option, hint=f"{meant}advisor knobs")
    for name in asked:
        if name in settings:
            raise UsageError(
                f"--fix {name} and --knob {name} contradict each other",
                hint=f"leave out one of the two {name}",
            )


def _own(
    knobs: Mapping[str, AnyKnob],
    profile: Profile,
    asked: Mapping[str, object],
    settings: Mapping[str, object],
) -> Configuration:
    """The program's own setting of every knob that has one."""
    own: dict[str, Value] = {}
    for name, knob in knobs.items():
        if knob.named_only and name not in asked and name not in settings:
            continue
        try:
            own[name] = knob.present(profile)
        except Refused:
            continue  # told where the knob's choices are asked for
    return Configuration(own)


def _choose(
    name: str,
    knob: AnyKnob,
    profile: Profile,
    asked: Mapping[str, Sequence[Value] | None],
    detectable: float,
    keep_batch: bool,
) -> tuple[list[NotTried], list[Value]]:
    """What is left out of one knob, and its values, the present one first; no values if it is left out."""
    if keep_batch and name in NEED_BATCH:
        return [NotTried(name, None, "the batch size is kept (--keep-batch)")], []
    values = asked.get(name)
    if values:
        return _named_values(name, knob, profile, values)
    left_out = [NotTried(name, value, reason) for value, reason in knob.left_out(profile).items()]
    try:
        choices: list[Value] = list(knob.choices(profile))
    except Refused as reason:
        return left_out or [NotTried(name, None, str(reason))], []
    needless = None if name in asked else knob.needless(profile)
    if needless is not None:
        return [NotTried(name, None, needless)], []
    bound = largest_share(knob, profile)
    if name not in asked and bound is not None:
        share, how = bound
        if share < detectable:
            # Above 100 % no share of a step is seen, so a figure would say nothing more.
            seen = "what" if detectable > 1 else f"the {detectable * 100:.3g} % that"
            reason_text = (
                f"at most {share * 100:.1f} % of the step could be gained{how}, "
                f"less than {seen} can be told from noise"
            )
            return [NotTried(name, None, reason_text)], []
    return left_out, choices


def largest_share(knob: AnyKnob, profile: Profile) -> tuple[float, str] | None:
    """The share of the step that a knob could take away, and how that is known; ``None`` without a bound.

    A replay with a part left out tells more than its phase: what runs beside other work is worth nothing.
    """
    own, parts = knob.ceiling(profile), knob.acts_on
    if own is not None:
        return own, ""
    if not parts or profile.phases is None:
        return None
    share = profile.phases.share(*parts)
    replays: dict[tuple[str, ...], Share | None] = {
        ("input_wait",): profile.replays.loader_free,
        ("optimizer",): profile.replays.optimizer_off,
        ("communication",): profile.replays.communication_off,
    }
    replay = replays.get(parts)
    if replay is not None and replay.high < share:
        return replay.high, " (measured with that part left out)"
    return share, ""


def _named_values(
    name: str, knob: AnyKnob, profile: Profile, values: Sequence[Value]
) -> tuple[list[NotTried], list[Value]]:
    try:
        own: Value = knob.present(profile)
    except Refused as reason:
        return [NotTried(name, None, str(reason))], []
    left_out, kept = [], [own]
    for value in dict.fromkeys(values):
        if value == own:
            continue
        try:
            knob.check(value, profile)
        except Refused as reason:
            left_out.append(NotTried(name, value, str(reason)))
        else:
            kept.append(value)
    if len(kept) == 1 and not left_out:
        left_out.append(NotTried(name, own, "this is the present setting"))
    return left_out, kept


def _without_hopeless(space: Space) -> Space:
    """Leave out values that no configuration allows, alone or together with one other change."""
    not_tried = list(space.not_tried)
    choices: dict[str, list[Value]] = {}
    for name, values in space.choices.items():
        kept = [values[0]]
        for value in values[1:]:
            if any(space.check(config) is None for config in _around(space, name, value)):
                kept.append(value)
            else:
                reason = space.check(next(_around(space, name, value)))
                not_tried.append(NotTried(name, value, reason or ""))
        if len(kept) > 1:
            choices[name] = kept
    kept_present = {k: v for k, v in space.present.items() if k in choices or k not in space.choices}
    return replace(space, present=Configuration(kept_present), choices=choices, not_tried=not_tried)


def _around(space: Space, name: str, value: Value) -> Iterator[Config]:
    """The value with what it needs in any case, alone and with one other change."""
    needed: dict[str, Value] = {name: value}
    if name in NEED_COMPILE and not compiles(space.present):
        for execution in space.choices.get("execution", ()):
            if compiles({"execution": execution}):
                needed["execution"] = execution
                break
    yield needed
    for other, values in space.choices.items():
        if other not in needed:
            for changed in values[1:]:
                yield {**needed, other: changed}
