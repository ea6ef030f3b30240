"""What a result says of the nodes of a run on several: what each did, how it waited, which were left out."""

from collections.abc import Sequence

from advisor.base.durations import write_duration
from advisor.result.header import Finite, Record


class BenchUse(Record):
    """What one node did in a run on several.

    Attributes:
        node: As the engine calls it.
        here: The tuner itself ran on it.
        group: The machine in words; nodes of another group are never used beside each other.
        fingerprint: Of what makes times comparable.
        left_out: Why it was not used, or no longer; empty where it was.
        step_ms: Of a step of the unchanged program there; ``None`` where it did not run.
        measured: Looks, pairs and removals that it measured of what was shared out; 0 where no other node
            was used, and all was measured here.
        busy_seconds: That it measured them.
        waited_seconds: That the tuner waited for others, or that this one had nothing to measure.
    """

    node: str
    here: bool = False
    group: str = ""
    fingerprint: str = ""
    left_out: str = ""
    step_ms: Finite | None = None
    measured: int = 0
    busy_seconds: Finite = 0.0
    waited_seconds: Finite = 0.0


def said(benches: Sequence[BenchUse]) -> list[tuple[str, str]]:
    """Each node with what it did, in words; empty where there was one."""
    shared = any(each.measured for each in benches)
    return [(f"Bench {each.node}", _said(each, shared=shared)) for each in benches]


def _said(use: BenchUse, *, shared: bool) -> str:
    step = [] if use.step_ms is None else [f"{use.step_ms:.4g} ms a step"]
    if use.here and not shared:
        return "; ".join([*step, "all was measured here: no other node was used"])
    measured = f"{use.measured} measurement{'' if use.measured == 1 else 's'}"
    worked = f"{measured} in {write_duration(use.busy_seconds)}, waited {write_duration(use.waited_seconds)}"
    parts = [*step, *([worked] if use.measured or not use.left_out else [])]
    if use.left_out:
        parts.append(f"left out: {use.left_out}")
    return "; ".join(parts)


def lines(benches: Sequence[BenchUse]) -> list[str]:
    """The same for a terminal."""
    return [f"{name}: {text}" for name, text in said(benches)]
