"""What users write after an option, read into values, where click has no type for it."""

import difflib
import re
from collections.abc import Callable, Sequence
from typing import Any

import click

from advisor.base.errors import UsageError, clean
from advisor.base.settings import MAX_SEED

UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
UNITS |= {
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
    "k": 2**10,
    "m": 2**20,
    "g": 2**30,
    "t": 2**40,
}
MAX_BYTES = 2**60
MAX_COUNT = 10**9


class Reader(click.ParamType[Any]):
    """A function from text to value as a type of click, which keeps the hint of its ``UsageError``."""

    name = "value"

    def __init__(self, read: Callable[[str], Any]) -> None:
        self.read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value that is written."""
        return self.read(value)


class Count(click.IntRange):
    """A whole number from ``least`` to ``most``, with what to do instead of a larger one."""

    name = "integer"

    def __init__(self, least: int, most: int = MAX_COUNT, *, hint: str | None = None) -> None:
        super().__init__(least)
        self.most, self.hint = most, hint

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number that is written."""
        number = int(super().convert(value, param, ctx))
        if number > self.most:
            raise UsageError(f"{self.most} is the limit", hint=self.hint)
        return number


class Choice(click.Choice[str]):
    """One of ``names``, with the nearest as a hint; those of ``later`` are known but not available yet."""

    def __init__(self, names: Sequence[str], later: Sequence[str] = ()) -> None:
        super().__init__(names)
        self.later = later

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name, if it is one of them."""
        if value in self.later:
            raise UsageError(f"'{value}' is not available yet", hint=f"one of {', '.join(self.choices)}")
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            raise UsageError(clean(error.message), hint=did_you_mean(value, self.choices)) from None


def did_you_mean(written: str, known: Sequence[str]) -> str | None:
    """The hint that names the nearest known word, if one is near."""
    near = difflib.get_close_matches(written, known, n=1)
    return f"did you mean {near[0]}?" if near else None


def seed(written: str) -> int:
    """What a seed of NumPy may be: 32 bits without sign."""
    if not re.fullmatch(r"\d{1,20}", written, re.ASCII) or int(written) > MAX_SEED:
        raise UsageError(f"the seed must be 0 to {MAX_SEED}")
    return int(written)


def max_loss(written: str) -> float:
    """A share above 0 and less than 1, or a percentage."""
    share, is_percent = _share(written)
    if share is None or (share >= 1 and not is_percent):
        raise UsageError(f"'{clean(written, 60)}' is not a share", hint="`1%` or `0.01`")
    if not 0 < share < 1:
        raise UsageError("--max-loss lies between 0% and 100%", hint="`1%` or `0.01`")
    return share


def min_gain(written: str) -> float:
    """A share of at least 0 and less than 1, or a percentage."""
    share, is_percent = _share(written)
    if share is None:
        raise UsageError(f"'{clean(written, 60)}' is not a share", hint="`2%` or `0.02`")
    if share >= 1 and not is_percent:
        raise UsageError(f"no unit in '{clean(written, 60)}'", hint="`2%` or `0.02`")
    if not 0 <= share < 1:
        raise UsageError("--min-gain lies between 0% and 100%", hint="`2%` or `0.02`")
    return share


def confidence(written: str) -> float:
    """A share between 0.5 and 1, or a percentage."""
    share, _ = _share(written)
    if share is None or not 0.5 < share < 1:
        raise UsageError("--confidence must lie between 0.5 and 1", hint="`0.95`")
    return share


def price(written: str) -> float:
    """A price: a number from 0 up, without a currency."""
    if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", written.strip(), re.ASCII) is None:
        raise UsageError(f"'{clean(written, 60)}' is not a price per hour", hint="`--price 2.5`")
    return float(written)


def size(written: str) -> int:
    """Bytes: a number, or one with a unit (``8GiB``)."""
    found = re.fullmatch(r"(\d{1,18}(?:\.\d{1,18})?)\s*([A-Za-z]*)", written.strip(), re.ASCII)
    unit = UNITS.get(found[2].lower()) if found else None
    if found is None or unit is None:
        raise UsageError(f"'{clean(written, 60)}' is not a number of bytes", hint="`8GiB`")
    count = int(float(found[1]) * unit)
    if not 0 < count <= MAX_BYTES:
        raise UsageError(f"'{clean(written, 60)}' is not between 1 byte and 1 EiB", hint="`8GiB`")
    return count


def device(written: str) -> str:
    """``auto``, ``cpu``, ``cuda`` or ``cuda:N``."""
    if not re.fullmatch(r"auto|cpu|cuda(:\d{1,4})?", written, re.ASCII):
        raise UsageError(f"'{clean(written, 60)}' is not one of auto, cpu, cuda, cuda:N")
    name, colon, index = written.partition(":")
    return f"{name}{colon}{int(index)}" if colon else name


def ranks(written: str) -> tuple[int, ...]:
    """Numbers of workers, separated by commas."""
    count = Count(1, 10**6)
    numbers = tuple(count.convert(part.strip(), None, None) for part in written.split(","))
    if len(set(numbers)) < len(numbers):
        raise UsageError(f"a number is given twice in '{clean(written, 60)}'")
    return numbers


def _share(written: str) -> tuple[float | None, bool]:
    """The share, ``None`` when it is none, and whether it was written as a percentage."""
    found = re.fullmatch(r"([+-]?(?:\d{1,30}\.?\d{0,30}|\.\d{1,30}))\s*(%?)", written.strip(), re.ASCII)
    if found is None:
        return None, False
    return float(found[1]) / (100 if found[2] else 1), bool(found[2])
