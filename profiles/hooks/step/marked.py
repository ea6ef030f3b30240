"""``with advisor.request():``: a program says itself where one of its requests begins and ends."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any


@dataclass
class Told:
    """Who is told of requests in this process; nobody, where no tuner watches."""

    around: Callable[[], AbstractContextManager[Any]] = nullcontext


TOLD = Told()


def request() -> AbstractContextManager[Any]:
    """One request to a trained model, for ``advisor tune --objective latency`` or ``requests``.

    Without it a request is the outermost call of a transformers pipeline, of ``generate`` or of a model.
    Where the program runs without a tuner this does nothing.
    """
    return TOLD.around()
