"""What is asked of a process whose model answers requests, and what it answers."""

from typing import Literal

from advisor.tuners.trial.messages import Message

Part = Literal["calibration", "selection", "confirmation"]


class TakeOutputs(Message, frozen=True):
    """Leave the model's outputs for ``most`` samples at ``path``; answered by ``OutputsTaken``.

    Of a workload they are the first ones of ``part`` (``advisor.workloads.samples``), in the same order in
    every process; of a script those of its next requests, whatever the part, or of what lies in the file
    ``inputs``. After ``limit_s`` it ends with what it has. With ``reference`` the dequantised reference of a
    form of 8 bits answers; without one nothing is left. ``apart`` says whether requests of a script for
    several samples are left as one for each; ``None``: where each is seen to be answered as if it were alone.
    """

    path: str
    part: Part
    most: int
    limit_s: float
    reference: bool = False
    inputs: str = ""
    apart: bool | None = None


class TakeInputs(Message, frozen=True):
    """Leave what a script's next requests ask at ``path``; answered by ``InputsTaken``.

    It ends after ``most`` of them or ``limit_s`` seconds.
    """

    path: str
    most: int
    limit_s: float


class InputsTaken(Message, frozen=True):
    """Inputs were left: ``count``, less those that hold other things than tensors and plain values."""

    count: int


class OutputsTaken(Message, frozen=True):
    """Outputs were left.

    Attributes:
        path: Where (``tuners/trial/numerics/kept_outputs.py`` reads it).
        count: Of how many samples.
        available: How many the part has; ``None`` of a script.
        scored: The user's metric has scored each.
        apart: Requests of a script for several samples were left as one for each.
    """

    path: str
    count: int
    available: int | None
    scored: bool
    apart: bool = False
