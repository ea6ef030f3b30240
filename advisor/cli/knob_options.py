"""``--knob`` and ``--fix``: which knobs are tried with which values, and which are set for all."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from advisor.base.errors import UsageError, clean
from advisor.base.settings import Value
from advisor.cli.completion import complete_knob as complete_knob
from advisor.cli.configuration import Form
from advisor.cli.options import Decorator, setting
from advisor.cli.values import did_you_mean
from advisor.tuners.knobs import KNOBS

MAX_VALUES = 100

Wish = tuple[str, list[Value] | None]
Fixed = tuple[str, Value]


def fix_option(help: str) -> Decorator:
    """``--fix``."""
    return setting(
        "--fix",
        read=read_fix,
        repeat=True,
        metavar="ID=VALUE",
        group="What to run",
        form=Form((list,), fix_entry),
        help=help,
    )


def knob_option(help: str) -> Decorator:
    """``--knob``."""
    return setting(
        "--knob",
        read=read_knob,
        repeat=True,
        metavar="ID[=V1,V2]",
        group="What is tried",
        form=Form((list,), knob_entry),
        help=help,
    )


def read_knob(written: str) -> Wish:
    """``ID`` or ``ID=V1,V2``: a knob and the values named, ``None`` for its own choices."""
    name, equals, listed = written.partition("=")
    known_knob(name)
    if not equals:
        return name, None
    return name, read_values(name, listed.split(","))


def read_fix(written: str) -> Fixed:
    """``ID=VALUE``."""
    name, equals, value = written.partition("=")
    known_knob(name)
    if not equals:
        raise UsageError(f"no value in '{clean(written, 60)}'", hint=f"`--fix {name}={example(name)}`")
    return name, read_values(name, [value])[0]


def read_values(name: str, texts: Iterable[str]) -> list[Value]:
    """Values of a knob; each may be named once."""
    values: list[Value] = []
    for written in texts:
        if not written.strip():
            raise UsageError(f"{name}: a value is empty", hint=f"`{name}={example(name)}`")
        try:
            value = KNOBS[name].parse(clean(written.strip(), 60))
        except ValueError as error:
            raise UsageError(f"{name}: {clean(str(error))}", hint=f"`advisor knobs {name}`") from None
        if value in values:
            raise UsageError(f"{name}: {value} is given twice")
        values.append(value)
    return values


def known_knob(name: str) -> str:
    """The name of a knob.

    Raises:
        UsageError: There is none of that name.
    """
    if name not in KNOBS:
        near = did_you_mean(name, list(KNOBS))
        listed = "`advisor knobs` lists all"
        raise UsageError(f"unknown knob '{clean(name, 60)}'", hint=f"{near} {listed}" if near else listed)
    return name


def example(name: str) -> str:
    """A value that the knob takes."""
    return str(KNOBS[name].values()[-1 if name == "placebo" else 0])


def merge_knobs(wishes: Iterable[Wish]) -> dict[str, list[Value] | None]:
    """Knobs named several times have all the values named; once without values means all choices."""
    merged: dict[str, list[Value] | None] = {}
    for name, values in wishes:
        before = merged.get(name, [])
        merged[name] = None if before is None or values is None else list(dict.fromkeys([*before, *values]))
    return merged


def merge_fixed(entries: Iterable[Fixed]) -> dict[str, Value]:
    """Settings for baseline and candidates alike.

    Raises:
        UsageError: One knob has two values.
    """
    merged: dict[str, Value] = {}
    for name, value in entries:
        if merged.get(name, value) != value:
            raise UsageError(f"--fix {name} given twice: {merged[name]}, {value}")
        merged[name] = value
    return merged


def refuse_contradictions(knobs: Mapping[str, list[Value] | None], fixed: Mapping[str, Value]) -> None:
    """Refuse what is both set and to be tried.

    Raises:
        UsageError: With all pairs.
    """
    both = [name for name in fixed if name in knobs]
    if both:
        pairs = [f"  --fix {name}={fixed[name]} and --knob {_spelt(name, knobs[name])}" for name in both]
        raise UsageError("\n".join(["settings contradict each other", *pairs]), hint="leave one of each out")


def knob_entry(name: str, content: Any) -> str:
    """An entry of the table ``knob`` of a file: a list, a range, or ``true`` for all choices."""
    return name if content is True else f"{name}={','.join(_texts(content))}"


def fix_entry(name: str, content: Any) -> str:
    """An entry of the table ``fix`` of a file: a value."""
    return f"{name}={_text(content)}"


def _spelt(name: str, values: list[Value] | None) -> str:
    return name if values is None else f"{name}={','.join(str(value) for value in values)}"


def _texts(content: Any) -> list[str]:
    if isinstance(content, dict):
        return [str(number) for number in _range(content)]
    items = content if isinstance(content, list) else [content]
    if not items:
        raise UsageError("no value is given", hint="leave the knob out, or give `true` for all choices")
    if len(items) > MAX_VALUES:
        raise UsageError(f"{len(items)} values; {MAX_VALUES} is the limit")
    return [_text(item) for item in items]


def _text(item: Any) -> str:
    if isinstance(item, bool):
        return "on" if item else "off"
    if isinstance(item, float) and not math.isfinite(item):
        raise UsageError(f"{item} is not a value")
    if not isinstance(item, int | str | float):
        raise UsageError(f"expected a value, got {clean(str(item), 60)}")
    return str(item)


def _range(content: Mapping[str, Any]) -> list[int]:
    """``{low, high, step}`` or ``{low, high, log = true}``, the latter doubling from ``low``."""
    unknown = [key for key in content if key not in ("low", "high", "step", "log")]
    if unknown:
        raise UsageError(f"{clean(unknown[0], 60)}: unknown key", hint="low, high, step, log")
    low, high, step = (_integer(content, key) for key in ("low", "high", "step"))
    if low is None or high is None:
        raise UsageError("a range needs low and high")
    if low > high:
        raise UsageError(f"low {low} is above high {high}")
    log = content.get("log", False)
    if not isinstance(log, bool):
        raise UsageError(f"log: expected true or false, got {clean(str(log), 60)}")
    if log and low < 1:
        raise UsageError(f"log needs a low of at least 1, got {low}")
    if step is not None and (step < 1 or log):
        raise UsageError("step and log exclude each other" if log else f"step must be at least 1, got {step}")
    count = (high // low).bit_length() if log else (high - low) // (step or 1) + 1
    if count > MAX_VALUES:
        raise UsageError(f"{count} values; {MAX_VALUES} is the limit", hint="`step`, or `log = true`")
    return [low * 2**power for power in range(count)] if log else list(range(low, high + 1, step or 1))


def _integer(content: Mapping[str, Any], key: str) -> int | None:
    value = content.get(key)
    if value is not None and type(value) is not int:
        raise UsageError(f"{key}: expected an integer, got {clean(str(value), 60)}")
    return value
