"""Named places at which a test may have this process die, wait or fail; nothing happens there otherwise.

Two things are needed before a point does anything: the variable ``ADVISOR_TEST_FAULT``, and a test that
installs what is to happen. No command of advisor installs anything.

Standard library only: tuner and trial both pass such points.
"""

import os
from collections.abc import Callable

VARIABLE = "ADVISOR_TEST_FAULT"

_injector: Callable[[str], None] | None = None


def hit(name: str) -> None:
    """Pass the point of this name, such as ``tell.before`` or ``outcome.rename.after``."""
    if _injector is not None:
        _injector(name)


def install(injector: Callable[[str], None]) -> None:
    """Have ``injector`` called at each point from now on, provided that the variable is set."""
    global _injector
    _injector = injector if VARIABLE in os.environ else None
