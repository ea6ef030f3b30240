"""The planted programs, and what has to be said of them: the same of a live run and of a recording."""

from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FAULTS = sorted((HERE / "faults").glob("*.py"))
CLEAN = sorted((HERE / "clean").glob("*.py"))
HEADROOM = frozenset({
    "fp32_matmul", "amp_unused", "contiguous_conv", "unfused_pointwise", "launch_bound", "batch_too_small",
    "throughput_knee", "optimizer_bound", "single_tensor_optimizer", "one_by_one",
})  # fmt: skip
"""Rules whose findings are no waste: that the fault is found is enough."""
DISTURBED = frozenset({"other_load", "throttled"})  # findings about the machine at this moment
FASTER = 1.3  # bfloat16 than float32, where computing in float32 is called a fault
IN_BFLOAT16 = frozenset({"bfloat16_transformer"})  # clean where bfloat16 is so much faster
WITHOUT_UNITS = frozenset({"int8_saturation", "int8_without_vnni"})  # faults where no unit computes in 8 bits
FIRST_SHARE = 0.9  # of the faults of kind waste or risk must be the first such finding
LOOKS = (1, 2)  # on shared machines other load hides or feigns
OPTIONS = ("--quiet", "--format", "json", "--steps-planned", "1000")
"""Of ``advisor profile``. What comes once, such as a cold cache, is weighed against the planned steps."""
BUDGET, LONGER = "30s", "60s"  # longer of what computes in bfloat16: without units a step takes a second
LIMIT_S = 240.0  # for one run
OF_REQUESTS = frozenset({
    "calibration_is_validation", "cold_request", "gradients_in_inference", "int8_saturation",
    "int8_without_vnni", "kv_cache_off", "masked_pruning", "one_by_one", "preprocessing_bound",
    "repeated_model_load", "retraced", "runtime_threads", "spinning_runtime", "train_mode_inference",
    "unfolded_batch_norm",
})  # fmt: skip
"""Rules that judge requests to a trained model."""
SERVING = "serves_"  # begins the name of a clean program that answers requests


def options_of(path: Path) -> tuple[str, ...]:
    """Options of ``advisor profile`` for a program."""
    serves = rule_of(path) in OF_REQUESTS or path.stem.startswith(SERVING)
    options = (*OPTIONS, "--budget", LONGER if path.stem in IN_BFLOAT16 else BUDGET)
    return (*options, "--objective", "latency") if serves else options


def rule_of(path: Path) -> str:
    """The rule that must name the fault of a program in ``faults``."""
    return path.stem.partition("__")[0]


def fired(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Findings that fired, without those about the machine at this moment."""
    return [
        finding
        for finding in result["findings"]
        if finding["state"] in ("opportunity", "diagnostic") and finding["rule"] not in DISTURBED
    ]


def failed(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Findings of rules that failed themselves."""
    return [finding for finding in result["findings"] if finding["state"] == "error"]


def fault_in(path: Path, result: dict[str, Any]) -> str:
    """The rule that must name the fault of a program on the machine of a result; empty where it has none.

    Where bfloat16 is no faster, computing in float32 is no fault, and computing in bfloat16 is one. Units for
    8 bits neither saturate nor lose to float32.
    """
    slow = result["machine"]["bf16_speedup"] < FASTER
    if path in FAULTS:
        spared = (slow and rule_of(path) == "amp_unused") or (
            rule_of(path) in WITHOUT_UNITS and has_units_of_8_bits(result)
        )
        return "" if spared else rule_of(path)
    return "amp_without_gain" if slow and path.stem in IN_BFLOAT16 else ""


def has_units_of_8_bits(result: dict[str, Any]) -> bool:
    """Whether the rule for processors without them says that this one has such units (VNNI, AMX)."""
    return any(
        finding["rule"] == "int8_without_vnni" and finding["title"].endswith("this one has them")
        for finding in result["findings"]
    )


def complaint(path: Path, result: dict[str, Any]) -> str:
    """What is wrong with what a profile says of a program; empty where nothing is.

    A fault must be found by its rule, a clean program gets no alarm, and no rule fails.

    Args:
        path: Of the program.
        result: ``result.json`` of ``advisor profile``; ``findings`` and ``machine`` are read.
    """
    if failed(result):
        return told(failed(result))
    found = fired(result)
    if fault := fault_in(path, result):
        return "" if fault in {finding["rule"] for finding in found} else told(found)
    alarms = [
        finding
        for finding in found
        if finding["kind"] in ("waste", "risk") and finding["severity"] in ("medium", "high")
    ]
    return told(alarms) if alarms else ""


def told_before(path: Path, result: dict[str, Any]) -> str:
    """What is told in place of the fault, or before it; empty where it comes first or is no waste or risk."""
    found = fired(result)
    if any(finding["rule"] == rule_of(path) and finding["kind"] == "headroom" for finding in found):
        return ""
    bad = [finding for finding in found if finding["kind"] in ("waste", "risk")]
    return "" if bad and bad[0]["rule"] == rule_of(path) else told(bad[:2])


def told(findings: list[dict[str, Any]]) -> str:
    """Findings in a line each."""
    return "\n".join(f"{f['severity']} {f['kind']} {f['rule']}: {f['title']}" for f in findings) or "nothing"
