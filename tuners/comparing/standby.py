"""A process that starts beside another one and waits for its turn: two start in little more time than one.

Starting (importing torch, building the model) keeps one CPU busy and is most of what a confirmation takes.
Nothing is measured before both have made their first step; from then on the second one stands still. Where
loaders are compared, both stand still before they load their first batch: a process that is paused later has
workers that run ahead.
"""

from collections.abc import Callable, Sequence

from advisor.tuners.knob import Config
from advisor.tuners.launching.rank_group import Running
from advisor.tuners.launching.session import SessionEnded
from advisor.tuners.supervision.failures import TrialFailed, is_disruption

Start = Callable[[Config], Running]


class Ahead:
    """Starts processes, and holds those that wait, with the configuration that each runs under.

    Some programs run alone only: they hold a lock or a port. Once one has failed beside another, none is
    started so any more.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[Config, Running]] = []
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
        session = self.take(config)
        if session is not None:
            return session
        self.drop()
        if following is None or self._alone:
            return _started(config, start)
        self._waiting.append((dict(following), start(following)))
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

    def both(self, configs: Sequence[Config], start: Start) -> None:
        """Start a process for each, to be taken one by one; each waits before it loads its first batch.

        Args:
            configs: What they are to run under.
            start: Starts a process that is told to wait so.

        Raises:
            TrialFailed: One was cut off. Where one fails by itself, or does not wait, none is there.
        """
        self.drop()
        if self._alone:
            return
        try:
            for config in configs:
                self._waiting.append((dict(config), start(config)))
            self._alone = not all([session.ready() for _, session in self._waiting])
        except (TrialFailed, SessionEnded) as end:
            self.drop()
            if isinstance(end, TrialFailed) and is_disruption(end.failure):
                raise
            self._alone = True
        except BaseException:
            self.drop()
            raise
        if self._alone:
            self.drop()

    def take(self, config: Config) -> Running | None:
        """The process of ``config`` that waits, now the caller's to end; ``None`` where there is none."""
        for place, (waiting, session) in enumerate(self._waiting):
            if waiting == config and session.alive:
                del self._waiting[place]
                return session
        return None

    def drop(self) -> None:
        """End what waits."""
        while self._waiting:
            self._waiting.pop()[1].kill()

    def _await_first_step(self) -> None:
        try:
            for _, session in self._waiting:
                session.first_step()
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
