"""What is said between the tuner and a process in which numbers are compared (``relearning.py``)."""

from advisor.tuners.trial.messages import Message


class KeepState(Message, frozen=True):
    """Make a step under ``config``, keep the state after it, and record the batches of the next ``steps``.

    Answered by ``StateKept``.
    """

    config: dict[str, int | str]
    steps: int


class StateKept(Message, frozen=True):
    """The state is kept, in ``host_bytes``; ``problem`` says why not, ``None`` if it is."""

    problem: str | None
    host_bytes: int = 0
    batches: int = 0


class Relearn(Message, frozen=True):
    """From the kept state, make ``steps`` steps under ``config`` on the recorded batches.

    Where they are not 0, with other random numbers and another order of the batches by ``seed``, and with
    weights moved by ``nudge``. Answered by ``Relearned``, once the state and ``base`` are back.
    """

    config: dict[str, int | str]
    base: dict[str, int | str]
    steps: int
    seed: int
    nudge: int


class Relearned(Message, frozen=True):
    """Steps from the kept state.

    Attributes:
        losses: Of each update.
        grad_norms: Before each update of the first optimizer.
        marks: Of each step, what has to be the same where a loop repeats itself: its kind, the order of its
            updates, its backwards, the learning rates.
        flags: What was in each step, but for compilation.
        problem: What did not come back afterwards; ``None`` if all did.
        refused: Knobs that did not take effect, with the reason.
        unanswered: Knobs that neither did nor said why not.
        peak_bytes: Highest memory of the process until now, less what keeping the state takes.
    """

    losses: tuple[float, ...]
    grad_norms: tuple[float, ...]
    marks: tuple[str, ...]
    flags: tuple[tuple[str, ...], ...]
    problem: str | None
    refused: dict[str, str]
    unanswered: tuple[str, ...]
    peak_bytes: int


class ReleaseState(Message, frozen=True):
    """Forget the kept state: the program goes on from it, with the recorded batches. Not answered."""
