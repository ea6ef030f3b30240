"""A process that starts beside another one and waits for its turn: two start in little more time than one.

Starting (importing torch, building the model) keeps one CPU busy and is most of what a confirmation takes.
Nothing is measured before both have made their first step; from then on the second one stands still.
"""

from collections.abc import Callable, Sequence

from advisor.tuners.knob import Config
from advisor.tuners.launching.rank_group import Running
from advisor.tuners.launching.session import SessionEnded
from advisor.tuners.supervision.failures import TrialFailed, is_disruption

Start = Callable[[Config], Running]


class Ahead:
    """Starts processes, and holds at most one that waits, with the configuration that it runs under.

    Some programs run alone only: they hold a lock or a port. Once one has failed beside another, none is
    started so any more.
    """

    def __init__(self) -> None:
        self._waiting: tuple[Config, Running] | None = None
        self._alone = False

    def first(self, config: Config, following: Config | None, start: Start) -> Running:
        """The process of ``config``, which has made its first step; the one that waits, if it is of that.

        Args:
            config: What it is to run under.
            following: What the next one is to run under, which may start now; ``None`` if none follows.
            start: Starts a process.

        Raises:
            TrialFailed: It failed, and not because another one ran beside it.
            SessionEnded: It came to its end before.
        """
        session = self._take(config)
        if session is not None:
            return session
        if following is None or self._alone:
            return _started(config, start)
        self._waiting = dict(following), start(following)
        try:
            session = _started(config, start)
        except TrialFailed as failed:
            self.drop()
            if is_disruption(failed.failure):
                raise
            self._alone = True
            return _started(config, start)
        self._await_first_step()
        return session

    def drop(self) -> None:
        """End what waits."""
        if self._waiting is not None:
            self._waiting[1].kill()
            self._waiting = None

    def _take(self, config: Config) -> Running | None:
        if self._waiting is None or self._waiting[0] != config or not self._waiting[1].alive:
            self.drop()
            return None
        (_, session), self._waiting = self._waiting, None
        return session

    def _await_first_step(self) -> None:
        if self._waiting is None:
            return
        try:
            self._waiting[1].first_step()
        except (TrialFailed, SessionEnded):
            self._alone = True
            self.drop()


def all_started(configs: Sequence[Config], start: Start, at_once: bool) -> list[Running]:
    """A process for each configuration, all at their first steps; one after the other unless ``at_once``."""
    sessions: list[Running] = []
    try:
        for config in configs:
            sessions.append(start(config))
            if not at_once:
                sessions[-1].first_step()
        for session in sessions if at_once else ():
            session.first_step()
    except BaseException:
        for session in sessions:
            session.kill()
        raise
    return sessions


def _started(config: Config, start: Start) -> Running:
    return all_started([config], start, at_once=False)[0]
