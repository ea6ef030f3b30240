"""A process that has measured a candidate and may go on: what comes next with it needs no launch."""

from collections.abc import Mapping
from dataclasses import replace

from advisor.tuners.comparing.windows import Window
from advisor.tuners.knob import Config, Value
from advisor.tuners.launching.rank_group import Running


class Held:
    """At most one process, at a step border; it is ended before anything else is started."""

    def __init__(self) -> None:
        self._session: Running | None = None
        self._config: Config = {}

    def keep(self, config: Config, session: Running) -> None:
        """Hold it, and end what was held before."""
        if session is not self._session:
            self.drop()
        self._session, self._config = session, dict(config)

    def has(self, session: Running) -> bool:
        """Whether it is this one."""
        return session is self._session

    def of(self, config: Mapping[str, Value]) -> Running | None:
        """The process that is held, if it lives and measured this candidate; it stays held."""
        session = self._session
        return session if session is not None and session.alive and self._config == dict(config) else None

    def take(self, config: Mapping[str, Value]) -> Running | None:
        """As ``of``, but from now on the caller's to end."""
        session = self.of(config)
        if session is not None:
            self._session = None
        return session

    def make_room(self, window: Window) -> Window:
        """End it for another process to start; its window, which has no outcome yet, with that.

        Raises:
            TrialFailed: It failed at its end.
        """
        session = self._session
        if window.outcome is not None or session is None or not session.alive:
            return window
        self._session = None
        return replace(window, outcome=session.stop())

    def drop(self) -> None:
        """End it."""
        session, self._session = self._session, None
        if session is not None:
            session.kill()
