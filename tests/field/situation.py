"""A situation that people have reported in public: its program, what must be told of it, what must not."""

from dataclasses import dataclass
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"


@dataclass(frozen=True)
class Situation:
    """A program with a fault, and what an engineer who knows would say of it.

    Attributes:
        program: Name of its file, without the suffix.
        answers: Rules of which each is a right answer.
        says: Expressions that title and advice of the answer must match together.
        place: Part of the line that the answer must name; empty where none is needed.
        never: Expressions that no title or advice of any finding may match.
        among: The answer comes among so many first findings: 1, or 2 where two answers are right.
        planned: Steps of the whole training.
        ranks: Whether it is started by torchrun.
        threads: Whether it computes with as many threads as there are CPUs when it is run; else with one.
        harmless: What the answer says where this processor does not suffer from it; empty where all do.
    """

    program: str
    answers: tuple[str, ...]
    says: tuple[str, ...] = ()
    place: str = ""
    never: tuple[str, ...] = ()
    among: int = 1
    planned: int = 1000
    ranks: bool = False
    threads: bool = False
    harmless: str = ""

    @property
    def path(self) -> Path:
        """Its program."""
        return PROGRAMS / f"{self.program}.py"
