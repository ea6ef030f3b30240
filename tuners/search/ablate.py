"""The smallest set of changes: each one is taken out of the winner, and put back only if that clearly costs.

Contributions are measured by removal, not by adding up single gains, which interact.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType

from advisor.tuners.comparing.affordable import half_width
from advisor.tuners.comparing.duel import Arena, by_work
from advisor.tuners.comparing.ended_early import ended_early
from advisor.tuners.comparing.excluded import refuse_collapse
from advisor.tuners.comparing.measure import Estimate, moderated
from advisor.tuners.comparing.ways import LIVE, SWITCHED, WINDOWS
from advisor.tuners.knob import Value
from advisor.tuners.launching.rank_group import Running, end
from advisor.tuners.launching.session import SessionEnded
from advisor.tuners.search.costs import DEAR, LONGER_S, Costs
from advisor.tuners.search.measuring import NEARLY_LARGE
from advisor.tuners.search.race import duel_quads
from advisor.tuners.search.removal import Removal, fewest_looks, judged, tells
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.space.space import Space
from advisor.tuners.supervision.failures import Failure, TrialFailed

LIVE_LOOKS = (4, 8, 16)  # quads in one process at which a contribution may be clear
SWITCHED_LOOKS = (1, 2, 4)  # the same of pairs of windows
APART_LOOKS = (1, 2, 3)  # pairs of processes, where a change needs its own
LONG_LIVE_LOOKS = (2, 4, 8)  # of long quads
MORE_SWITCHED = 8  # pairs of windows, where a change seems to bring much and is not clear after those
HOPEFUL = 0.5  # of what these looks probably tell, below which they are a waste: estimates err
ENDED = "the program ended before one comparison"


def removals(
    arena: Arena,
    winner: Configuration,
    space: Space,
    *,
    detectable: float,
    level: float,
    number: int,
    deadline: float,
    startup_s: float = 0.0,
    speed: float = 1.0,
    say: Callable[[str], None] = lambda text: None,
    worth: Callable[[Configuration], float] = lambda config: 0.0,
    known: Mapping[str, Estimate] = MappingProxyType({}),
    seen: Mapping[str, Estimate] = MappingProxyType({}),
    joint: Mapping[frozenset[str], Estimate] = MappingProxyType({}),
    known_of: Callable[[Configuration], Mapping[str, Estimate]] = lambda config: {},
    running: Running | None = None,
    least: float = math.inf,
) -> tuple[Configuration, list[Removal]]:
    """Reduce a winner to the changes whose removal clearly costs, and more than ``detectable`` (log ratio).

    A removal that tells by itself that it costs has to cost more than ``least`` only. What cannot be told
    from nothing is taken out, also where intervals are wide; the last change is left to the confirmation.
    What is ``known`` to gain is not taken out again, nor what is ``known_of`` what is left once others went.
    Those that gained least where they were ``seen`` alone come first, so that the strongest is the last; of
    so little that pairs of processes would not tell it, none is measured. Nor is what takes more of the time
    that is left than it is worth: it stays if it was clearly ``seen`` to gain. Those that ``seen`` alone did
    not clearly gain are taken out together first, and one after the other only where together they bring
    something. One of several that the search saw together alone (``joint``) counts as seen so, once the
    others went and cost nothing.

    Changes that can be switched are taken out and put back in one process; others need their own. A change
    whose removal cannot be measured (the program fails without it) is kept, and so is what the deadline
    leaves unmeasured; what it leaves half measured is kept if it was clearly ``seen`` to gain and so far
    costs to take out. What its removal does not tell by itself is kept if it was clearly ``seen`` to gain,
    and both together tell it. ``worth`` is the log ratio of what a sample is worth under a configuration.
    ``speed`` is the winner's ratio over the program as it is, by which looks are shorter.
    ``running`` can be switched to the winner; it is ended only where other processes are needed.
    """
    config, base = winner, space.present
    measured: list[Removal] = []
    changed = config.changed(base)
    dependent = {name for name in changed if arena.knobs[name].follows in changed}
    candidates = [name for name in changed if name not in dependent]
    measured += [Removal(name, known[name], True) for name in candidates if name in known]
    with _Bench(arena, level, number, deadline, Costs(arena, startup_s), running, least) as bench:
        unknown = [name for name in candidates if name not in known]
        unknown.sort(key=lambda name: seen[name].estimate if name in seen else 0.0)
        config, out = _out_together(bench, config, _doubtful(unknown, seen), seen, space, detectable, worth)
        measured += out
        for name in unknown:
            if config[name] == base[name]:
                continue  # went with another change
            reduced = space.without(config, name)
            if not reduced.changed(base):
                continue
            if config != winner and (gain := known_of(config).get(name)) is not None:
                measured.append(Removal(name, gain, True))
                continue
            if name not in seen:
                gone = [each for each in measured if not each.needed]
                costless = {each.knob for each in gone if each.contribution.estimate <= detectable}
                left = [gave for names, gave in joint.items() if names - costless == {name}]
                seen = {**seen, name: left[-1]} if left else seen
            if name in seen:
                dear = bench.is_dear(seen[name].estimate, reduced, config, speed)
                clear = seen[name].low > detectable
                if not bench.could_tell(seen[name].estimate, reduced, config) or (dear and not clear):
                    config = reduced
                    measured.append(Removal(name, seen[name], False))
                    continue
                if dear:
                    continue
            if not bench.affords(reduced, config):
                continue
            say(f"taking {name} out")
            try:
                faster = bench.contribution(
                    reduced, config, detectable, fewest_looks(seen.get(name), detectable)
                )
            except TrialFailed:
                continue
            estimate = faster.shifted(worth(config) - worth(reduced))
            measured.append(
                judged(name, estimate, detectable, seen.get(name), cut_off=bench.cut_off, least=least)
            )
            if not measured[-1].needed:
                config = reduced
    return config, measured


def _doubtful(unknown: Sequence[str], seen: Mapping[str, Estimate]) -> list[str]:
    """Changes that did not clearly gain where they were seen alone; never all of a winner."""
    doubtful = [name for name in unknown if name in seen and seen[name].low <= 0]
    return doubtful[:-1] if len(doubtful) == len(unknown) else doubtful


def _out_together(
    bench: "_Bench",
    winner: Configuration,
    names: Sequence[str],
    seen: Mapping[str, Estimate],
    space: Space,
    detectable: float,
    worth: Callable[[Configuration], float],
) -> tuple[Configuration, list[Removal]]:
    """The winner without several changes where together they bring less than what counts, else as it is.

    One comparison in place of one for each: most of what was not clearly seen to gain is noise of its look.
    """
    names = [
        name for name in names if bench.could_tell(seen[name].estimate, space.without(winner, name), winner)
    ]
    reduced = winner
    for name in names:
        reduced = space.without(reduced, name)
    if len(names) < 2 or not reduced.changed(space.present) or not bench.affords(reduced, winner):
        return winner, []
    try:
        faster = bench.contribution(reduced, winner, detectable)
    except TrialFailed:
        return winner, []
    estimate = faster.shifted(worth(winner) - worth(reduced))
    if bench.cut_off or tells(estimate, bench.least) or estimate.estimate >= detectable:
        return winner, []
    return reduced, [Removal(name, estimate, False) for name in names]


def contribution(
    arena: Arena,
    reduced: Configuration,
    winner: Configuration,
    *,
    detectable: float,
    level: float,
    number: int,
    deadline: float,
    fewest: int = 1,
) -> tuple[Estimate, bool]:
    """How much faster a winner is than without one change: a log ratio; looks until that is clear.

    Args as of ``removals``, and the ``fewest_looks`` that have to say that it is not.

    Returns:
        The log ratio, and whether time cut it off before it was clear.

    Raises:
        TrialFailed: It cannot be measured.
    """
    with _Bench(arena, level, number, deadline, Costs(arena), None) as bench:
        return bench.contribution(reduced, winner, detectable, fewest), bench.cut_off


class _Bench:
    """Compares winners with and without one change, in one process for as long as changes are live.

    Attributes:
        cut_off: The last contribution was not clear when the time was over, before its last look.
        least: As of ``removals``.
    """

    cut_off = False

    def __init__(
        self,
        arena: Arena,
        level: float,
        number: int,
        deadline: float,
        costs: Costs,
        running: Running | None,
        least: float = math.inf,
    ) -> None:
        self.least = least
        self._arena = arena
        self._level = level
        self._number = number
        self._deadline = deadline
        self._costs = costs
        self._lent = running
        self._session: Running | None = None
        self._settled: dict[str, Value] = {}

    def __enter__(self) -> "_Bench":
        return self

    def __exit__(self, *exception: object) -> None:
        self._end()

    def affords(self, reduced: Configuration, winner: Configuration, more: int = 0) -> bool:
        """Whether there is time for so many more quads or pairs of these; 0 stands for a first look."""
        look_s = self._look_s(reduced, winner, more or self._looks(self._how(reduced, winner))[0])
        return self._arena.clock() + look_s <= self._deadline

    def is_dear(self, gain: float, reduced: Configuration, winner: Configuration, speed: float) -> bool:
        """Whether telling a log ratio takes more of the rest than it is worth.

        Args:
            gain: The log ratio.
            reduced: The winner without one change.
            winner: It itself.
            speed: Ratio of it over the program as it is.
        """
        looks = self._looks(self._how(reduced, winner))
        seconds = self._look_s(reduced, winner, looks[-1], speed)
        return seconds > DEAR * max(0.0, gain) * (self._deadline - self._arena.clock())

    def _looks(self, how: str) -> tuple[int, ...]:
        """Quads or pairs after which each look ends, in the order of time."""
        live = LIVE_LOOKS if self._arena.quad_s <= LONGER_S else LONG_LIVE_LOOKS
        return {LIVE: live, SWITCHED: SWITCHED_LOOKS}.get(how, APART_LOOKS)

    def _look_s(self, reduced: Configuration, winner: Configuration, count: int, speed: float = 1.0) -> float:
        """Seconds of so many quads in one process, or pairs of windows or processes."""
        arena, how = self._arena, self._how(reduced, winner)
        if how == LIVE:
            return count * arena.quad_s / speed
        if how in (SWITCHED, WINDOWS):
            fresh = how == WINDOWS
            steps = sum(sum(arena.window_steps(each, fresh=fresh)) for each in (reduced, winner))
            measured_s = arena.step_s * steps
        else:
            measured_s = duel_quads(arena) * arena.quad_s
        made_s = sum(self._costs.making_s(config) for config in (reduced, winner))
        starts_s = 0.0 if how == SWITCHED else 2 * self._costs.launch_s + made_s
        return count * (starts_s + measured_s / speed)

    def could_tell(self, gain: float, reduced: Configuration, winner: Configuration) -> bool:
        """Whether looks would tell a log ratio from nothing; those of processes of their own are few."""
        arena, how = self._arena, self._how(reduced, winner)
        if how in (LIVE, SWITCHED):
            return True
        return gain >= HOPEFUL * half_width(APART_LOOKS[-1], arena.sigma, duel_quads(arena), self._level, how)

    def _how(self, reduced: Configuration, winner: Configuration) -> str:
        how = self._arena.how(reduced, winner, fresh=True)
        return SWITCHED if how == WINDOWS and self._arena.may_switch(reduced, winner) else how

    def contribution(
        self,
        reduced: Configuration,
        winner: Configuration,
        detectable: float,
        fewest: int = 1,
    ) -> Estimate:
        """How much faster the winner is than the reduced one; looks until that is clear.

        That it is not faster, so many looks at least have to say, and of short quads in one process, which
        cost little, as many as it takes to tell that it is not even by ``least``. Windows in one process
        differ by how workers happen to come: of what seems to be faster by much there are more.
        """
        how = self._how(reduced, winner)
        if how == LIVE and self._arena.quad_s <= LONGER_S:
            detectable = min(detectable, self.least)
        instances: list[list[float]] = [[]]
        looks, self.cut_off = self._looks(how), False
        usual = looks[-1]
        if how == SWITCHED:
            looks = (*looks, MORE_SWITCHED)
        for taken, (stop, after) in enumerate(pairwise((*looks, 0)), start=1):
            if how == LIVE:
                instances[0] += self._live(reduced, winner, stop - len(instances[0]))
            elif how == SWITCHED:
                instances[0] += self._switched(reduced, winner, len(instances[0]), stop)
            else:
                instances = [
                    *filter(None, instances),
                    self._apart(reduced, winner, how, swapped=stop % 2 == 0),
                ]
            estimate = moderated(instances, self._level, how)
            hopeless = estimate.high < detectable or (len(instances) > 1 and estimate.estimate < detectable)
            if estimate.low > 0 or (hopeless and taken >= fewest):
                break
            if stop >= usual and estimate.estimate < NEARLY_LARGE:
                break
            if after and not self.affords(reduced, winner, after - stop):
                self.cut_off = True
                break
        return estimate

    def _process(self, winner: Configuration) -> Running:
        """The one that is switched; another one where it ended, or has other settings from its start."""
        settled = self._arena.settled(winner)
        if self._session is None and self._lent is not None and self._lent.alive:
            self._session, self._settled = self._lent, settled
        if self._session is None or not self._session.alive or settled != self._settled:
            self._end()
            self._session, self._settled = self._arena.start(winner, self._number), settled
            self._session.first_step()
            self._arena.warm_up(self._session, config=winner)
        return self._session

    def _live(self, reduced: Configuration, winner: Configuration, quads: int) -> list[float]:
        session = self._process(winner)
        try:
            ratios, slots, _ = self._arena.quads(
                (session, session), (reduced, winner), quads, self._deadline, by_work(reduced, winner)
            )
        except SessionEnded as ended:
            raise ended_early(self._arena, ended) from ended
        refuse_collapse((reduced, winner), slots)
        return ratios

    def _switched(self, reduced: Configuration, winner: Configuration, first: int, stop: int) -> list[float]:
        """Pairs of windows from this number up to that one, in swapped roles by turns."""
        ratios: list[float] = []
        for number in range(first, stop):
            session = self._process(winner)
            try:
                duel = self._arena.switched(session, reduced, winner, swapped=number % 2 == 1)
            except SessionEnded as ended:
                raise TrialFailed(Failure("user_error", ENDED)) from ended
            ratios += duel.log_ratios
        return ratios

    def _apart(
        self, reduced: Configuration, winner: Configuration, how: str, *, swapped: bool
    ) -> list[float]:
        if self._lent is not None:
            end(self._lent)
        duel = self._arena.duel(
            reduced,
            winner,
            how=how,
            quads=duel_quads(self._arena),
            swapped=swapped,
            number=self._number,
            deadline=self._deadline,
        )
        return duel.log_ratios

    def _end(self) -> None:
        if self._session is not None and self._session is not self._lent:
            self._session.kill()
        self._session = None
