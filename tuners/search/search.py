"""The stages of a search: one knob at a time against the incumbent, then jointly by Optuna."""

import contextlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from advisor.tuners.benches.crew import FEW
from advisor.tuners.comparing.windows import Window
from advisor.tuners.knob import Value
from advisor.tuners.launching.rank_group import Running
from advisor.tuners.search.asking import Proposal
from advisor.tuners.search.curve import STILL_WAITS, Curve
from advisor.tuners.search.eligible import is_of_space
from advisor.tuners.search.finals import Finals
from advisor.tuners.search.measuring import NEARLY_LARGE, BudgetSpent
from advisor.tuners.search.ordering import INTERACTING, PAIRS, serves_data, telling
from advisor.tuners.search.race import WORTH
from advisor.tuners.search.waves import FRUITLESS
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.space.space import NotTried

FINALS_SHARE = 0.1  # of the time of a search, kept for them to meet each other


class Search(Finals):
    """Finds a configuration worth confirming."""

    def run(self, session: Running | None, baseline: Window | None = None) -> Configuration:
        """Search until converged or out of budget; the incumbent is what to confirm.

        Args:
            session: The baseline's process, still running, for what can be switched; ``running`` has it
                afterwards.
            baseline: What it has shown of the program as it is, where that stands for a window.
        """
        self.running = session
        return self._search(baseline)

    def go_on(
        self,
        config: Configuration,
        score: float,
        deadline: float,
        rejected: Configuration | None = None,
        running: Running | None = None,
        refused: bool = False,
    ) -> Configuration:
        """Search on after a decision; the incumbent is what to confirm next.

        Args:
            config: What was confirmed, or the baseline.
            score: Of it, as of all that was measured.
            deadline: Of the clock; what has no time left is not tried.
            rejected: What was not confirmed; it is not nominated again.
            running: A process under ``config``, at a step border; the search's from now on.
            refused: What was rejected is as fast as it looked: go on from the best that is not part of it.
        """
        if rejected is not None:
            self._nominees.discard(rejected)
            self._seen[rejected] = -math.inf
            doubted = self._expectations.doubted | rejected.changed(self.space.present).keys()
            self._expectations = replace(self._expectations, doubted=frozenset(doubted))
        self._adopt(score, self.space.complete(config))
        self.deadline = self.latest = deadline
        self.earliest = -math.inf
        self.not_tried = [entry for entry in self.not_tried if entry not in self._too_long]
        self._too_long.clear()
        self._apart = False
        self.stands = score
        if config == self.space.present:  # what looked large was not
            self.verdict_s = lambda config, score: math.inf
        if running is not None:
            self.running = None
            self._race.adopt(self.incumbent, running, moved=True)
        if refused and rejected is not None and config == self.space.present:
            self._take_next_best(rejected)
        return self._search()

    def _take_next_best(self, rejected: Configuration) -> None:
        """Go on from the best that was measured and does not hold all that was rejected."""
        present = self.space.present
        out = rejected.changed(present).items()
        left = [config for config in self._nominees if not out <= config.changed(present).items()]
        best = max(left, key=lambda config: (self._seen[config], config.key), default=present)
        if self._seen[best] > WORTH:
            self._adopt(self._seen[best], best)

    def _search(self, baseline: Window | None = None) -> Configuration:
        if self.running is not None:
            self._race.adopt(self.space.present, self.running, baseline)
        left_s = self.deadline - self.clock()
        self._for_finals_s = FINALS_SHARE * max(0.0, left_s) if math.isfinite(left_s) else 0.0
        explored, self.paused = -1, False
        try:
            while (
                explored < len(self._lost) and not self.paused
            ):  # what was found beside a lost setting is looked for without it
                explored = len(self._lost)
                self._explore()
            self.stopped_by = "budget" if self._too_long or self.paused else "converged"
        except BudgetSpent as spent:
            self.stopped_by = spent.by
        if self.paused:
            self.running = self._race.hand_over()
            return self.incumbent
        self._tell_what_serves_no_more()
        self._for_finals_s = 0.0
        self._take_the_rest()
        try:
            self._race_the_best()
        except BudgetSpent as spent:
            self.stopped_by = spent.by if self.stopped_by == "converged" else self.stopped_by
        self.running = self._race.hand_over()
        return self.incumbent

    def earlier(self) -> list[tuple[float, Configuration]]:
        """What was the incumbent before and may be confirmed as well, the best first, each with its score."""
        gained = [(score, config) for score, config in self._before if score > self.stands + WORTH]
        found = {config: score for score, config in gained if config in self._nominees}
        return sorted(((score, config) for config, score in found.items()), key=lambda each: -each[0])

    def screen_at(self, config: Configuration, score: float, deadline: float) -> Configuration:
        """Try once more, from another configuration, the knobs that interact; the best is what to confirm.

        Its trials lie outside of the space that is searched: the study's sampler learns nothing from them.

        Args:
            config: Such as the incumbent with a larger batch.
            score: Of it, as of all that was measured.
            deadline: Of the clock; what has no time left is not tried.
        """
        config = self.space.complete(config)
        self._adopt(score, config)
        self.deadline = self.latest = deadline
        self._apart = True
        self._keep(config, score)
        with contextlib.suppress(BudgetSpent):  # what was found before counts
            self._screen_again()
        self.running = self._race.hand_over()
        return self.incumbent

    def _explore(self) -> None:
        self._start_from_findings(self._expectations.order(self.incumbent))
        if self.crew.size > 1:
            self._screen_in_waves()
        else:
            self._screen_in_turn()
        self.paused = self.paused or self._is_found()
        if self.paused:
            return
        if self.incumbent.changed(self.space.present).keys() & self.space.choices.keys():
            self._screen_again()
        self._try_pairs()
        self._take_out_the_doubtful()
        self._refine()

    def _screen_in_waves(self) -> None:
        """What promises a gain that counts, in waves, and what takes a moment; then the rest.

        What was found by then may be confirmed first. Few benches, which would leave no other to what takes
        long, begin with what takes a moment or is proven to gain.
        """
        names, screened, self._screened = list(self.space.choices), self._screened, False
        later, self._unseen = list(self._unseen), {}
        short: list[str] = []
        if not screened:
            promising = [name for name in names if self._is_promising(name)]
            short = [name for name in names if self._is_short(name)]
            proven = [name for name in promising if self._expectations.proven(name, self.incumbent)]
            for begun in [proven, promising] if self.crew.size <= FEW else [promising]:
                later = [name for name in names if name not in [*short, *begun]]
                self._screen_at_once([name for name in names if name not in later], hopeful=True)
                self._follow_the_wait()
                self._screen_at_once(short, hopeful=False)
                if self._is_confirmed_first(self.incumbent, self.score):
                    self._unseen = {name: [] for name in later}
                    self._screened = self.paused = True
                    return
        self._screen_at_once(later)
        self._screen_at_once([name for name in names if name not in [*short, *later]], hopeful=False)

    def _screen_in_turn(self) -> None:
        """One knob after the other, whose best value takes the incumbent's place before the next."""
        left, self._unseen = self._unseen or {name: [] for name in self.space.choices}, {}
        while left:  # what came in may have taken from others what they could give
            waits = self._waits_now
            order = self._expectations.order(self.incumbent, waits, left)
            order = [name for name in order if name in left]
            name = order[0]
            proven = self._expectations.proven(name, self.incumbent, waits)
            if not proven and self.score - self.stands >= NEARLY_LARGE:
                prompt = next((each for each in order if self._is_prompt(each, left[each])), None)
                if prompt is None and self._is_worth_a_verdict(left):
                    self._unseen, self.paused = left, True
                    return
                name = prompt or name
            had = left.pop(name)
            values = [
                value for value in self._values(name, self.incumbent, hopeful=True) if value in had or not had
            ]
            cheap = self._expectations.cheap(name, values, self.incumbent)
            if dear := [value for value in values if value not in cheap]:
                left[name] = dear
            self._screen(name, cheap)
            self._follow_the_wait()
        for name in self._expectations.order(self.incumbent):
            self._screen(name, self._values(name, self.incumbent, hopeful=False))

    def _start_from_findings(self, order: list[str]) -> None:
        """Try together what several findings ask for: one trial, where live knobs make it cheap."""
        asked = [name for name in order if self.priorities.get(name) and self.arena.knobs[name].live]
        config = self.incumbent
        for name in asked:
            value = next(iter(self._values(name, self.incumbent)), None)
            if value is not None:
                config = self.space.complete(config.with_({name: value}))
        if len(config.changed(self.incumbent)) > 1 and self.space.check(config) is None:
            self._try(config)

    def _take_out_the_doubtful(self) -> None:
        """Look once without each change that came in by no more than noise: beside later ones it may cost."""
        steps = [*self._before, (self.score, self.incumbent)]
        for (score, config), (higher, after) in pairwise(steps):
            names = after.changed(config)
            if len(names) != 1 or after == self.incumbent or higher - score >= self._doubt(after):
                continue
            without = self.space.complete(self.space.without(self.incumbent, next(iter(names))))
            if self._is_new(without) and self._is_allowed(without):
                self._try(without)

    def _follow_the_wait(self) -> None:
        """Go on to larger numbers of what serves data where the incumbent, whose step got shorter, waits.

        Not where fewer than the program's own were better: with none, all of making a batch is a wait.
        """
        for name, value in self.incumbent.changed(self.space.present).items():
            waits, own = self._waits_now or 0.0, self.space.present[name]
            if waits < STILL_WAITS or not serves_data(self.arena.knobs[name]):
                continue
            if isinstance(value, int) and isinstance(own, int) and value > own:
                larger = [each for each in self._values(name, self.incumbent) if isinstance(each, int)]
                self._screen(name, sorted(each for each in larger if each > value))

    def _screen(self, name: str, values: Iterable[Value] | None = None) -> None:
        """Race values of one knob, all unless given, against the incumbent, whose place the best takes."""
        if self._serves_no_more(name):
            return
        start = self.incumbent
        best: tuple[float, Configuration] | None = None
        curve = Curve(list(self._values(name, start) if values is None else values))
        for_data = serves_data(self.arena.knobs[name])
        try:
            while (value := curve.next()) is not None:
                config = self._expectations.beside(start, {name: value})
                if self._is_ruled_out(config, start):
                    continue
                most = self.score if best is None else best[0]
                score = self._measure(config, "screen", bar=most - self.score)
                if self.incumbent != start:  # part of it declined: none of this counts
                    best = None
                    return
                if score is None:
                    continue
                better = score > most + self._gain_needed(config)
                curve.told(value, better=better, waits=self._waits.get(config) if for_data else None)
                if better:
                    best = (score, config)
        finally:  # the budget may end in between; what was found before counts
            if best is not None:
                self._adopt(*best)

    def _tell_what_serves_no_more(self) -> None:
        for name in self.space.choices:
            untried = all(config[name] == self.space.present[name] for config in self._seen)
            if untried and self._serves_no_more(name):
                self.not_tried = [each for each in self.not_tried if each.knob != name]
                waits = f"{self._waits[self.incumbent]:.1%} of the step"
                self._leave_out(NotTried(name, None, f"with the best settings found {waits} waits for data"))

    def _try_pairs(self) -> None:
        """Known pairs: both at once where neither gained alone, one beside the other where one did."""
        for pair in PAIRS:
            if not all(name in self.space.choices for name in pair):
                continue
            kept = [name for name in pair if self.incumbent[name] == self.space.present[name]]
            if len(kept) == 1 and kept[0] not in INTERACTING:
                self._screen(kept[0])
            if len(kept) == 2:
                self._try_together(pair)

    def _try_together(self, names: Sequence[str]) -> None:
        values = {name: list(self._values(name, self.incumbent)) for name in names}
        if not all(values.values()):
            return
        found = {name: telling(of, self.incumbent[name]) for name, of in values.items()}
        config = self._expectations.beside(self.incumbent, found)
        if any(config[name] != value for name, value in found.items()) or not self._is_new(config):
            return
        self._try(config)

    def _try(self, config: Configuration, proposal: Proposal | None = None, *, again: bool = False) -> bool:
        """Race a configuration against the incumbent; whether it took its place."""
        score = self._measure(config, "search", proposal, again=again)
        gained = score is not None and score > self.score + self._gain_needed(config)
        if score is not None and gained:
            self._adopt(score, config)
        return gained

    def _screen_again(self) -> None:
        """Knobs that interact are tried once more at the incumbent: a gain may need the others."""
        if self.crew.size > 1:
            self._screen_at_once([name for name in INTERACTING if self._is_kept(name)])
            return
        for name in INTERACTING:
            if self._is_kept(name):
                self._screen(name)

    def _is_kept(self, name: str) -> bool:
        """Whether a knob may be tried and the incumbent has it as the program does."""
        return name in self.space.choices and self.incumbent[name] == self.space.present[name]

    def _refine(self) -> None:
        """Joint proposals of Optuna's sampler, until several in a row change nothing."""
        fruitless = 0
        if len(self.space.choices) < 2:  # its own curve has decided
            return
        while fruitless < FRUITLESS and self.space.size > len(self._seen):
            proposals = self._proposed(FRUITLESS - fruitless)
            if not proposals:
                return
            fruitless += sum(each.repeats for each in proposals)
            self.likely(self.incumbent, self.score)
            if len(proposals) == 1:
                gained = self._try(proposals[0].config, proposals[0])
            else:
                gained = self._try_all([each.config for each in proposals], proposals=proposals)
            fruitless = 0 if gained else fruitless + len(proposals)

    def _take_the_rest(self) -> None:
        """What earlier parts measured though the search of now did not come to it counts too."""
        for config, scores in self.measured.scores.items():
            known = config in self._seen or config in self.measured.failures or self._is_lost(config)
            if known or not is_of_space(config, self.space):
                continue
            score = self._keep(config, scores[-1])
            if score is not None and score > self.score + WORTH:
                self._adopt(score, config)
