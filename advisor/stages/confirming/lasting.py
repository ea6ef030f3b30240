"""A winner that runs longer: in the process that measured it last, or ahead of the verdict beside others."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from advisor.stages.confirming.longer_run import LongerRun, run_longer
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.comparing.ways import LIVE
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.supervision.failures import TrialFailed


@dataclass
class Lasting:
    """Runs a configuration longer, once.

    Attributes:
        arena: Holds the process afterwards.
        is_too_much: Whether so many bytes of memory are more than may be used.
    """

    arena: Arena
    is_too_much: Callable[[int], bool]
    _ahead: dict[Configuration, LongerRun] = field(default_factory=dict)

    def ran(self, config: Configuration) -> bool:
        """Whether it ran ahead."""
        return config in self._ahead

    def run_ahead(self, config: Configuration, steps: int, number: int, how: str) -> None:
        """Run it before it is known whether it is confirmed; where that fails ``run`` tells."""
        with suppress(TrialFailed):
            self._ahead[config] = self._run(config, steps, number, how)

    def run(self, config: Configuration, steps: int, number: int, how: str) -> LongerRun:
        """What was seen of it.

        The last process of the pairs goes on where it is there. One that held the unchanged program too may
        have had its peak from that: where it is too high, a process of its own tells.

        Args:
            config: What is to be recommended.
            steps: The usual ones.
            number: Of the trial.
            how: It is compared; one of ``comparing.ways``.

        Raises:
            TrialFailed: As ``run_longer``.
        """
        return self._ahead.pop(config, None) or self._run(config, steps, number, how)

    def _run(self, config: Configuration, steps: int, number: int, how: str) -> LongerRun:
        arena, both = self.arena, how == LIVE
        held = arena.held.take(config)
        longer, session = run_longer(arena, config, steps, number, held, switched=both)
        if held is not None and both and self.is_too_much(longer.peak_bytes):
            session.kill()
            longer, session = run_longer(arena, config, steps, number)
        arena.held.keep(config, session)
        return longer
