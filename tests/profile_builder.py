"""Profiles built by hand beside the realistic one: nearly empty, and with any names in every place."""

from typing import Any

from result_builder import HOSTILE, a_ceiling, a_finding, a_named_result, a_profile_result, an_interval

from advisor.result.document import Operator, ProfileData, ProfileSummary, Recording
from advisor.result.header import Target
from advisor.result.on_device import Collective, Kernel, Product


def an_empty_profile(**fields: Any) -> ProfileData:
    """Of a trace that shows next to nothing."""
    target = Target(path="trace.json", kind="trace")
    values: dict[str, Any] = {
        "target": target, "command": ["profile", "trace.json"], "machine": {}, "baseline": None,
        "profile": ProfileSummary(phases_ms={}), "findings": [], "warnings": [], "seed": None,
    }  # fmt: skip
    return a_profile_result(**(values | fields))


def a_named_profile(names: list[str]) -> ProfileData:
    """A profile that carries ``names`` in every place that holds text of a user or of a rule."""
    named = a_named_result(names)
    states = ("opportunity", "diagnostic", "passed", "not_applicable", "error")
    findings = [
        a_finding(
            name, state, title=name, advice=name, knobs=[name], explains=name, why=name,
            location={"file": name, "line": 3, "function": name}, ceiling=a_ceiling(0.3, 0.2, 0.4),
            evidence={f"{index}{name}": name, "disturbed_by": [name]},
        )
        for index, name in enumerate(names)
        for state in states
    ]  # fmt: skip
    summary = named.profile.model_copy(
        update={
            "summary": "what was found", "notes": list(names), "steps": 20,
            "recording": Recording(steps=5, events_per_step=9, notes=list(names)),
            "kernels_ms": {f"{index} {name}": 1.0 for index, name in enumerate(names)},
            "roofline_by_kind": {f"{index} {name}": 0.5 for index, name in enumerate(names)},
            "products": [
                Product(op=name, m=8, n=8, k=8, dtype=name, calls=1, kernel_us=5.0, tflops=2.0)
                for name in names
            ],
            "kernels": [
                Kernel(name=name, kind=name, calls=1, us=5.0, op=name, location=name, dtype=name)
                for name in names
            ],
            "rates_from": names[0],
            "collectives": [
                Collective(kind=name, calls=2, ms=1.0, bytes=2**20, ranks=4, wait_ms=0.5, bus_gb_per_s=5.0)
                for name in names
            ],
            "operators": [
                Operator(name=name, phase=name, calls=1, self_ms=1.0, dtype=name, location=name)
                for name in names
            ],
            "memory_bytes": {f"{index} {name}": 2**20 for index, name in enumerate(names)},
            "replays": {f"{index} {name}": an_interval(0.2) for index, name in enumerate(names)},
            "replays_refused": {f"r{index} {name}": name for index, name in enumerate(names)},
            "rates": {f"{index} {name}": 5e9 for index, name in enumerate(names)},
            "roofline": {f"{index} {name}": 0.5 for index, name in enumerate(names)},
        }
    )  # fmt: skip
    return a_profile_result(
        advisor_version=named.advisor_version, command=named.command, created=named.created,
        target=named.target, machine=named.machine, profile=summary, findings=findings,
        warnings=named.warnings,
    )  # fmt: skip


def a_hostile_profile() -> ProfileData:
    return a_named_profile(HOSTILE)
