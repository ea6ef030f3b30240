"""The contract of a knob: what can be set, what it changes at which event, how to adopt it.

A knob is one file in ``knobs/`` that defines one subclass. It defines only the events it needs; a
method named after an event of a run (see ``advisor.profiles.events``) is the subscription.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Generic, TypeVar

from advisor.base.unit import Unit
from advisor.profiles.facts.profile import Profile

Value = int | str
V = TypeVar("V", bound=int | str)

Config = Mapping[str, Value]


class Semantics(StrEnum):
    """What a change may do to the numbers that are computed."""

    EXACT = "exact"
    ROUNDING = "rounding"
    PRECISION = "precision"
    TRAINING = "training"


class Refused(Exception):
    """A knob cannot apply here; the text says why, in the words of the report."""


@dataclass(frozen=True)
class Change:
    """What a user writes to adopt a value: a line of code, and variables to set."""

    snippet: str
    environment: dict[str, str] = field(default_factory=dict)


class Knob(Generic[V]):
    """One thing that can be set about a run.

    Class attributes:
        semantics: What the change may do to the numbers.
        live: It can be switched between two steps of one process. Its methods are then called again
            with the new value, also with the present one to return to it.
        of_iterator: It sets how iterators of a loader are made, by its ``loader`` alone. Where they can be
            made anew within an epoch it is switched between two steps, too: ``loader`` is called again then.
        loading: It changes how batches are made; compared over whole windows only.
        compiles: Its first trial compiles the model, for tens of seconds.
        named_only: Never tried unless the user names it.
        acts_on: Parts of ``StepPhases`` that it can shorten at all; empty when unknown. Their share
            of the step bounds the gain.
        usual_gain: Share of the step (0 to 1) that usually goes where it helps, as measured for knobs.md and
            rounded; 0.05 where nothing was. Orders a search where ``expected`` says nothing, together with
            what bounds the gain.
        layer: Order among knobs at one event; lower ones are nearer to the user's code.
        follows: The knob without which this one does nothing, if there is one; they come and go together.
        opt_in: Where its meaning is ``training`` it is recommended only if the user allows that
            (``--allow training``), not merely by being named.
        units: What a run may be counted in for it to make sense: steps of a training, requests, or both.
        written: How code in an advice writes it where that is not its id; in lower case.
    """

    semantics: ClassVar[Semantics]
    live: ClassVar[bool] = False
    of_iterator: ClassVar[bool] = False
    loading: ClassVar[bool] = False
    compiles: ClassVar[bool] = False
    named_only: ClassVar[bool] = False
    acts_on: ClassVar[tuple[str, ...]] = ()
    usual_gain: ClassVar[float] = 0.05
    layer: ClassVar[int] = 0
    follows: ClassVar[str | None] = None
    opt_in: ClassVar[bool] = False
    units: ClassVar[frozenset[Unit]] = frozenset({Unit.STEP})
    written: ClassVar[tuple[str, ...]] = ()

    def values(self) -> Sequence[V] | range:
        """Every legal value, for checking what a user asks for; a ``range`` for whole numbers."""
        raise NotImplementedError

    def choices(self, profile: Profile) -> list[V]:
        """What to try on this run, the present setting first.

        Raises:
            Refused: It cannot apply to this run or machine.
        """
        raise NotImplementedError

    def left_out(self, profile: Profile) -> dict[V, str]:
        """Legal values that ``choices`` does not offer for this run, each with the reason worth telling."""
        return {}

    def ceiling(self, profile: Profile) -> float | None:
        """Largest share of the step (0 to 1) that it could take away, if more is known than ``acts_on``."""
        return None

    def needless(self, profile: Profile) -> str | None:
        """Why a search leaves it out unless a user names it: nothing in the profile speaks for it."""
        return None

    def expected(self, profile: Profile, value: V) -> float | None:
        """Speed under ``value`` over the present one, as the profile lets expect; below 1 where it is slower.

        It orders a search and is told to nobody. ``None`` where the profile says nothing about it: then the
        findings that name the knob count, or what it usually gives.
        """
        return None

    def present(self, profile: Profile) -> V:
        """The program's own setting, also where there is nothing to propose.

        Raises:
            Refused: The program has no such setting.
        """
        return self.choices(profile)[0]

    def check(self, value: V, profile: Profile) -> None:
        """Raise ``Refused`` when a legal value cannot work on this run; used for values named by a user."""

    def meaning(self, config: Config) -> Semantics:
        """``semantics`` of this configuration, for knobs whose values differ in it."""
        return self.semantics

    def change(self, value: V) -> Change:
        """What the user writes to adopt ``value``."""
        raise NotImplementedError

    def prepare(self, config: Config, present: Config) -> None:
        """Called before a configuration takes effect, for a knob whose effect depends on others."""

    def fixed_in(self, profile: Profile) -> str | None:
        """Why each setting needs a process of its own on this run; ``None`` where it can be switched."""
        if self.live:
            return None
        if not self.of_iterator or profile.loader is None:
            return "it acts before the first step"
        return profile.loader.fixed

    def makes_s(self, config: Config) -> float:
        """Seconds that each process takes to make what a configuration asks of it, on two cores.

        Such as an export or a form of other numbers. It orders a search and is told to nobody; what
        `execution` compiles is counted by itself.
        """
        return 0.0

    def epochs_before(self, value: V) -> int:
        """Epochs that pass before a run goes on as it does under ``value``; measured is what comes then."""
        return 0

    def parse(self, text: str) -> V:
        """The value spelt ``text`` on a command line.

        Raises:
            ValueError: Not a legal value; the message lists the legal ones.
        """
        legal = self.values()
        if isinstance(legal, range):
            try:
                number = int(text)
            except ValueError:
                raise ValueError(f"'{text}' is not a whole number") from None
            if number not in legal:
                raise ValueError(f"{number} is not between {legal.start} and {legal.stop - 1}")
            return number  # type: ignore[return-value]  # a knob with a range is a Knob[int]
        for value in legal:
            if str(value) == text:
                return value
        names = ", ".join(f"'{value}'" for value in legal)
        raise ValueError(f"'{text}' is not one of {names}")


AnyKnob = Knob[Any]


def offered(present: V, refusals: Mapping[V, str | None]) -> list[V]:
    """The present setting and those that are not refused.

    Args:
        present: Comes first.
        refusals: By setting why it cannot be tried here; nothing where it can.

    Raises:
        Refused: All of them are.
    """
    if all(refusals.values()):
        raise Refused("; ".join(dict.fromkeys(reason for reason in refusals.values() if reason)))
    return [present, *(value for value, reason in refusals.items() if not reason)]
