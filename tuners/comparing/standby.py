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
        self._begun = False

    def begin(self, configs: Sequence[Config], start: Start) -> bool:
        """Start a process for each while something else goes on; ``first`` or ``both`` await them.

        Args:
            configs: What they are to run under.
            start: Starts a process.

        Returns:
            Whether they were: not where the program runs alone only.
        """
        self.drop()
        if self._alone:
            return False
        try:
            for config in configs:
                self._waiting.append((dict(config), start(config)))
        except BaseException:
            self.drop()
            raise
        self._begun = True
        return True

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
        if self._begun:
            self._await_first_step()
        session = self.take(config)
        if session is not None:
            return _at_first_step(session)
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
        try:
            begun = self._begun and [config for config, _ in self._waiting] == list(configs)
            if not begun and not self.begin(configs, start):
                return
            self._begun = False
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

    def all(self, configs: Sequence[Config], start: Start, at_once: bool) -> list[Running]:
        """A process for each, all at their first steps; one after the other unless ``at_once``.

        Args:
            configs: What they are to run under; those that wait are taken.
            start: Starts a process.
            at_once: They may make their first steps at the same time.

        Raises:
            TrialFailed: One failed.
            SessionEnded: One came to its end before.
        """
        sessions: list[Running] = []
        try:
            for config in configs:
                sessions.append(self.take(config) or start(config))
                if not at_once:
                    _at_first_step(sessions[-1])
            return [_at_first_step(session) for session in sessions]
        except BaseException:
            for session in sessions:
                session.kill()
            raise

    def take(self, config: Config) -> Running | None:
        """The process of ``config`` that waits, now the caller's to end; ``None`` where there is none."""
        for place, (waiting, session) in enumerate(self._waiting):
            if waiting == config and session.alive:
                del self._waiting[place]
                return session
        return None

    def drop(self) -> None:
        """End what waits."""
        self._begun = False
        while self._waiting:
            self._waiting.pop()[1].kill()

    def _await_first_step(self) -> None:
        self._begun = False
        try:
            for _, session in self._waiting:
                session.first_step()
        except (TrialFailed, SessionEnded):
            self._alone = True
            self.drop()


def _started(config: Config, start: Start) -> Running:
    return _at_first_step(start(config))


def _at_first_step(session: Running) -> Running:
    """A process that has made its first step, or makes it now; one that fails is ended."""
    if session.startup_s is None:
        try:
            session.first_step()
        except BaseException:
            session.kill()
            raise
    return session
