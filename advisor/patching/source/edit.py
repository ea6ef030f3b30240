"""The contract of an edit: which changes it writes into a program's source, and when it would have to guess.

An edit is one file in ``edits/`` that defines one subclass. Only what is certain is edited: exactly one place
that can be meant, in a form that is known. Everything else is refused, and becomes an instruction.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from advisor.result.document import Value

if TYPE_CHECKING:
    import libcst

    from advisor.patching.source.program_source import Source


class CannotEdit(Exception):
    """An edit would have to guess; the text says why, in the words of the report.

    Args:
        reason: Why.
        knob: The one change that is at fault, where the others could be written without it.
    """

    def __init__(self, reason: str, knob: str | None = None) -> None:
        super().__init__(reason)
        self.knob = knob


@dataclass(frozen=True)
class Asked:
    """A change of the recommendation: a knob from its present value to another one.

    Attributes:
        before: The present setting.
        after: A legal value of the knob.
    """

    knob: str
    before: Value
    after: Value


class Edit:
    """One kind of edit.

    Class attributes:
        knobs: Ids of the knobs whose changes it writes, all of them at once or none.
        replaces_environment: Variables that a change names beside its code need not be set any more.
        left: What is still to be done by hand beside the edit, if anything is.
    """

    knobs: ClassVar[tuple[str, ...]]
    replaces_environment: ClassVar[bool] = False
    left: ClassVar[str] = ""

    def edit(self, source: "Source", asked: Mapping[str, Asked]) -> "libcst.Module":
        """The program with its changes written into it; nothing else is touched.

        Args:
            source: The program.
            asked: All changes by knob; at least one is of ``knobs``.

        Raises:
            CannotEdit: There is no place for it, or more than one.
        """
        raise NotImplementedError

    def unwritten(self, asked: Mapping[str, Asked]) -> str | None:
        """Code that ``left`` asks for; empty if it asks for none here, ``None`` for the knob's own.

        Args:
            asked: All changes that were edited, by knob.
        """
        return None
