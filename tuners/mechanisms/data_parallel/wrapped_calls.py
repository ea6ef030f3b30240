"""Programs that use more of their model than a wrapper around it offers."""

from collections.abc import Iterator
from contextlib import contextmanager

from advisor.tuners.knob import Refused


@contextmanager
def only_called(model: object) -> Iterator[None]:
    """Inside, the program may call the wrapped model, and no more.

    Raises:
        Refused: It asked the wrapper for something that only its own model has.
    """
    try:
        yield
    except AttributeError as error:
        if error.obj is not model:
            raise
        raise Refused(
            f"the step uses model.{error.name}, which {type(model).__name__} does not pass on; "
            f"it may only call the model"
        ) from error
