"""Everything that is wrong with a request, gathered and told at once."""

from collections.abc import Iterator
from contextlib import contextmanager

import click

from advisor.base.errors import AdvisorError, UsageError, clean


class SeveralProblems(AdvisorError):
    """More than one thing has to be corrected; ``found`` lists them."""

    code = "usage"

    def __init__(self, found: list[AdvisorError]) -> None:
        lines = [f"{len(found)} things have to be corrected", *(_line(error) for error in found)]
        super().__init__("\n".join(lines))
        self.found = tuple(found)
        self.exit_code = min(error.exit_code for error in found)


class Problems:
    """Collects errors of independent checks."""

    def __init__(self) -> None:
        self.found: list[AdvisorError] = []

    @contextmanager
    def gather(self, prefix: str = "", where: str | None = None) -> Iterator[None]:
        """Keep an error of the block instead of raising it.

        Args:
            prefix: Put before its message.
            where: Its place, unless it has one.
        """
        try:
            yield
        except UsageError as error:
            self.found.append(
                UsageError(
                    prefix + error.message, where=error.where or where, cause=error.cause, hint=error.hint,
                    code=error.code,
                )
            )  # fmt: skip
        except AdvisorError as error:
            self.found.append(error)
        except click.BadParameter as error:
            self.found.append(UsageError(prefix + clean(error.message), where=where))

    def raise_any(self) -> None:
        """Raise what was gathered, if anything.

        Raises:
            AdvisorError: The only one as it is, several as ``SeveralProblems``.
        """
        if len(self.found) == 1:
            raise self.found[0]
        if self.found:
            raise SeveralProblems(self.found)


def _line(error: AdvisorError) -> str:
    where = f"{error.where}: " if error.where else ""
    hint = f" ({error.hint})" if error.hint else ""
    return f"  {where}{error.message}{hint}"
