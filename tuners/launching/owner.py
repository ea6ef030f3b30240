"""What a session needs of the launcher that started it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from advisor.tuners.supervision.adoption import Adoption
from advisor.tuners.supervision.limits import Limits

if TYPE_CHECKING:
    from advisor.tuners.launching.session import Session


class Owner(Protocol):
    """What a session needs of the launcher that started it."""

    limits: Limits
    adoption: Adoption

    @property
    def waiting(self) -> Callable[[str, float], None]:
        """Called while waiting, with what is waited for and for how long; may raise ``Interrupted``."""

    def forget(self, session: "Session") -> None:
        """It has ended."""

    def end_orphans(self) -> None:
        """Its supervisor was killed."""

    def stuck(self, count: int) -> None:
        """That many of its processes are there in spite of SIGKILL."""
