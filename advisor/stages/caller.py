"""Who asked for a run: is told what happens, and may stop it."""

from dataclasses import dataclass, field

from advisor.base.settings import Progress
from advisor.base.signals import StopRequests
from advisor.tuners.launching.session import Interrupted


@dataclass
class Caller:
    """The user of one run.

    Attributes:
        progress: Is told what happens.
        stop: Knows whether a signal came.
        warnings: All that were told, each once.
    """

    progress: Progress
    stop: StopRequests
    warnings: list[str] = field(default_factory=list)

    def waiting(self, what: str, seconds: float) -> None:
        """Tell that a wait goes on.

        Raises:
            Interrupted: The user asked to stop.
        """
        if self.stop.received is not None:
            raise Interrupted
        self.progress.waiting(what, seconds)

    def warn(self, text: str) -> None:
        """Tell a warning, if it was not told before."""
        if text not in self.warnings:
            self.warnings.append(text)
            self.progress.warn(text)
