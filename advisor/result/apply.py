"""What ``apply`` did or would do: the document of ``--format json``, as values with a schema.

``status``
    ``shown``, ``written``, ``not_written`` (a verification failed, or there is nothing to edit),
    ``reverted``, or ``nothing`` (the result recommends to keep what there is).
``file``
    The file as the result names it; ``null`` where no file can be edited.
``diff``
    A unified diff, empty where nothing is edited.
``edited``
    Changes that are in the diff: ``knob``, ``from``, ``to``.
``instructions``
    Changes that are left to the user, each with the ``reason``, the ``snippet`` to write and the
    ``environment`` to set.
``environment``
    All variables to set before the program starts.
``backup``
    Where the file as it was lies, after it was written.
``verification``
    What measuring the patched program gave: ``verdict`` (``met``; ``missed``: shown to be less than promised;
    ``not_shown``: no gain could be shown; ``drifts``: other numbers; ``failed``: the patched program fails),
    ``promised`` (``null`` where only a part of the changes is in the patch), ``measured``, ``gain`` (what
    both are ratios of), ``numerics`` with ``numerics_reason``, ``processes``, ``seconds`` and ``why``.
"""

from typing import ClassVar, Literal

from pydantic import Field

from advisor.result.document import Adopted, Finite, Ratio, Value
from advisor.result.header import Header, Record, Target

Verdict = Literal["met", "missed", "not_shown", "drifts", "failed"]


class Setting(Record):
    """A knob from its present value to another one."""

    knob: str
    from_: Value = Field(alias="from")
    to: Value


class Instruction(Setting):
    """A change that is not edited, why, and how to make it."""

    reason: str
    snippet: str = ""
    environment: dict[str, str] = Field(default_factory=dict)


class Verification(Record):
    """The patched program against the original one."""

    verdict: Verdict
    promised: Ratio | None = None
    measured: Ratio | None = None
    gain: str = "throughput"
    numerics: Literal["identical", "within_noise", "drifts", "not_checked"] = "not_checked"
    numerics_reason: str = ""
    processes: int = 0
    seconds: Finite = 0.0
    why: str = ""

    @property
    def holds(self) -> bool:
        """Whether the patch keeps its promise."""
        return self.verdict == "met"


class ApplyData(Header):
    """What ``apply`` did or would do."""

    ascii_only: ClassVar[bool] = True

    target: Target
    status: Literal["shown", "written", "not_written", "reverted", "nothing"]
    file: str | None = None
    diff: str = ""
    edited: list[Setting] = Field(default_factory=list)
    instructions: list[Instruction] = Field(default_factory=list)
    environment: dict[str, str] = Field(default_factory=dict)
    backup: str | None = None
    verification: Verification | None = None
    warnings: list[str] = Field(default_factory=list)


def by_hand(change: Adopted, reason: str) -> Instruction:
    """A change that nobody edits for the user, with the reason."""
    return Instruction(
        knob=change.knob,
        **{"from": change.from_},
        to=change.to,
        reason=reason,
        snippet=change.snippet,
        environment=dict(change.environment),
    )
