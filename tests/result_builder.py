"""Results built by hand: a realistic one, one with nothing to gain, large ones, and a hostile one."""

import random
from typing import Any

from advisor.result.document import (
    Adopted,
    Baseline,
    Budget,
    Finding,
    Interval,
    Loss,
    Noise,
    Operator,
    ProfileData,
    ProfileSummary,
    Proposal,
    Rate,
    Ratio,
    Recommendation,
    Recording,
    ResultData,
    Trial,
    Untried,
    Value,
)  # fmt: skip
from advisor.result.header import Target
from advisor.result.wording import shown

HOSTILE = [
    "<script>alert(1)</script>", "</script>", "<!--", "]]>",
    "\"><img src=x onerror=alert(1)>", "' onmouseover='alert(1)", "javascript:alert(1)", "data:text/html,x",
    "{{7*7}}", "{% raise %}", "${7*7}", "%s%n", "[red]x[/foo]", "[link=http://x]y[/link]",
    "\x1b]0;t\x07", "\x1b[2J", "\x9b31m", "\u202egpj.exe", "\u2066x", "\u200b",
    "=HYPERLINK(\"http://x\")", "+1", "-1", "@everyone #1", "a|b`c", "```", "![x](http://x)",
    "[x](javascript:y)",
    "\udcff", "\u0000", "a\nb", "a\r\nb", "x" * 5000, "../../etc/passwd", "'; DROP TABLE studies; --", "",
]  # fmt: skip

PLAIN = [f"name{index}" if shown(name) else "" for index, name in enumerate(HOSTILE)]
"""A plain name for each hostile one; one of which nothing can be shown is empty here too."""

NOW: dict[str, Value] = {
    "num_workers": 0, "prefetch_factor": 2, "persistent_workers": "off", "amp": "off", "execution": "eager",
    "channels_last": "off", "batch_size": 64,
}  # fmt: skip
FOUND: dict[str, Value] = NOW | {"num_workers": 2, "amp": "bf16"}

MACHINE: dict[str, Any] = {
    "fingerprint": "5f0d2a77c1be9e04", "cpus_allowed": 4, "physical_cores": 4, "memory_bytes": 16 * 2**30,
    "shm_bytes": 2**30, "cpu_model": "AMD EPYC 9454P 48-Core Processor", "platform": "Linux x86_64",
    "python": "3.11.9", "torch": "2.13.0+cpu", "torch_default_threads": 4, "cpu_capability": "AVX512",
    "bf16_speedup": 5.31, "mkldnn": True, "has_compiler": True, "cuda": False, "gpus": [], "governor": None,
    "disturbed_by": [],
}  # fmt: skip


def a_ratio(estimate: float, low: float, high: float, quads: int = 20, instances: int = 6) -> Ratio:
    return Ratio(estimate=estimate, low=low, high=high, quads=quads, instances=instances)


def an_interval(estimate: float, spread: float = 0.02) -> Interval:
    return Interval(estimate=estimate, low=estimate * (1 - spread), high=estimate * (1 + spread))


def a_rate(estimate: float, spread: float = 0.02) -> Rate:
    return Rate(estimate=estimate, low=estimate * (1 - spread), high=estimate * (1 + spread))


def a_trial(number: int, ratio: Ratio | None = None, **fields: Any) -> Trial:
    """A complete trial; its step time and throughput follow from ``ratio`` over 38.4 ms."""
    if ratio is not None:
        fields = {
            "against_baseline": ratio,
            "step_ms": an_interval(38.4 / ratio.estimate),
            "throughput": a_rate(64_000 / 38.4 * ratio.estimate),
            "peak_bytes": 913 * 2**20,
            **fields,
        }
    return Trial(**{"number": number, "config": dict(NOW), "log": f".advisor/logs/{number}.log", **fields})


def some_trials() -> list[Trial]:
    return [
        a_trial(
            0, stage="baseline", step_ms=an_interval(38.4), throughput=a_rate(1666.7), peak_bytes=913 * 2**20,
            log=".advisor/logs/0.log",
        ),
        a_trial(1, a_ratio(1.31, 1.24, 1.38, 24, 1), config=NOW | {"num_workers": 1}),
        a_trial(2, a_ratio(1.74, 1.66, 1.83, 24, 1), config=NOW | {"num_workers": 2}),
        a_trial(3, a_ratio(1.71, 1.61, 1.82, 24, 1), config=NOW | {"num_workers": 4}),
        a_trial(4, a_ratio(1.28, 1.25, 1.31, 32, 1), config=NOW | {"amp": "bf16"}, process="shared"),
        a_trial(
            5, a_ratio(0.71, 0.68, 0.74, 8, 1), config=NOW | {"amp": "fp16"}, process="shared",
            state="pruned",
        ),
        a_trial(6, a_ratio(1.002, 0.987, 1.018, 16, 1), config=NOW | {"channels_last": "on"}),
        a_trial(
            7, config=NOW | {"execution": "compile"}, state="failed", cause="compile_failed", peak_bytes=None,
            message="BackendCompilerFailed: no C++ compiler named 'g++-13' was found",
        ),
        a_trial(
            8, config=NOW | {"batch_size": 1024}, state="failed", cause="oom_host",
            message="cgroup memory limit reached at batch 1024", peak_bytes=16 * 2**30,
        ),
        a_trial(9, a_ratio(2.18, 2.05, 2.31, 24, 1), config=dict(FOUND), stage="search"),
        a_trial(
            10, a_ratio(2.09, 2.01, 2.17, 40, 6), config=dict(FOUND), stage="confirm", peak_bytes=970 * 2**20,
        ),
        a_trial(11, a_ratio(1.27, 1.22, 1.33, 20, 6), config=NOW | {"amp": "bf16"}, stage="ablate"),
        a_trial(12, a_ratio(1.69, 1.62, 1.77, 20, 6), config=NOW | {"num_workers": 2}, stage="ablate"),
    ]  # fmt: skip


def an_adopted(*, before: Value, **fields: Any) -> Adopted:
    return Adopted.model_validate({"from": before, **fields})


def a_recommendation(**fields: Any) -> Recommendation:
    changes = [
        an_adopted(
            knob="num_workers", before=0, to=2, semantics="exact", contribution=a_ratio(1.65, 1.55, 1.75),
            numerics="identical", snippet="DataLoader(..., num_workers=2)",
        ),
        an_adopted(
            knob="amp", before="off", to="bf16", semantics="precision", numerics="within_noise",
            contribution=a_ratio(1.24, 1.18, 1.30), environment={"ONEDNN_DEFAULT_FPMATH_MODE": "BF16"},
            snippet="with torch.autocast('cpu', dtype=torch.bfloat16):\n    loss = criterion(model(x), y)",
        ),
    ]  # fmt: skip
    values: dict[str, Any] = {
        "verdict": "change", "config": dict(FOUND), "speedup": a_ratio(2.09, 2.01, 2.17, 40, 6),
        "memory_ratio": Interval(estimate=1.062, low=1.051, high=1.073), "numerics": "within_noise",
        "changes": changes,
        "proposals": [
            Proposal(
                knob="batch_size", to=256, measured=a_ratio(1.46, 1.39, 1.54, 16, 2),
                reason="throughput only, convergence unverified", snippet="DataLoader(..., batch_size=256)",
            )
        ],
    }  # fmt: skip
    return Recommendation(**(values | fields))


def a_result(**fields: Any) -> ResultData:
    """A realistic ``change``; any field of ``ResultData`` may be replaced."""
    values: dict[str, Any] = {
        "advisor_version": "0.1.0",
        "command": ["tune", "train.py", "--budget", "10m", "--", "--epochs", "1"],
        "created": "2026-11-20T11:12:00+00:00",
        "study": "train",
        "seed": 0,
        "target": Target(
            path="train.py", kind="script", args=["--epochs", "1"], digest="sha256:9b1c", launches=31,
        ),
        "machine": MACHINE,
        "noise": Noise(
            aa_ratio=a_ratio(1.003, 0.991, 1.015, 24, 1), smallest_detectable=0.018,
            excluded_slots={"other_load": 3},
        ),
        "baseline": Baseline(
            config=NOW, step_ms=an_interval(38.4), throughput=a_rate(1666.7), peak_bytes=913 * 2**20,
            loss=Loss(first=2.3041, last=1.874, steps=20),
        ),
        "profile": ProfileSummary(
            phases_ms={
                "input_wait": 16.2, "transfer": 0.31, "forward": 7.93, "backward": 11.4, "optimizer": 1.62,
                "communication": 0.0, "sync": 0.42, "other": 0.52,
            },
            periodic_s={"evaluation": 3.7, "save": 0.41}, epoch_s=36.4, overhead=0.004,
        ),
        "trials": some_trials(),
        "recommendation": a_recommendation(),
        "not_tried": [
            Untried(knob="pin_memory", reason="no accelerator"),
            Untried(knob="num_workers", value=16, reason="4 CPUs are allowed; at most four workers for each"),
        ],
        "warnings": ["the program wrote 2 files in its working folder: runs/events.1, last.pt"],
        "budget": Budget(seconds=412.6, trials=13, stopped_by="converged"),
    }  # fmt: skip
    return ResultData(**(values | fields))


def a_keep(**fields: Any) -> ResultData:
    """A result that recommends nothing."""
    values: dict[str, Any] = {
        "recommendation": Recommendation(
            verdict="keep", config=dict(NOW), speedup=a_ratio(1.004, 0.989, 1.019),
            reason="the best candidate, num_workers=1, could not be told from the baseline",
        ),
        "warnings": [],
    }  # fmt: skip
    return a_result(**(values | fields))


def an_empty_result() -> ResultData:
    """The least that can be reported: a baseline and nothing else."""
    return a_keep(trials=[], not_tried=[], machine={}, profile=ProfileSummary(phases_ms={}))


def many_trials(count: int) -> list[Trial]:
    """Seeded trials of every stage and state; about one in ten failed."""
    source = random.Random(7)
    trials = [some_trials()[0]]
    for number in range(1, count):
        config = NOW | {
            "num_workers": source.choice([0, 1, 2, 4]), "amp": source.choice(["off", "bf16", "fp16"]),
            "batch_size": source.choice([32, 64, 128, 256]),
        }  # fmt: skip
        if source.random() < 0.1:
            kind = source.choice(["oom_host", "timeout", "compile_failed", "interference"])
            trials.append(
                a_trial(number, config=config, state="failed", cause=kind, message=f"stopped: {kind}")
            )
            continue
        at = source.lognormvariate(0.15, 0.25)
        wide = source.uniform(0.01, 0.06)
        ratio = a_ratio(round(at, 4), round(at * (1 - wide), 4), round(at * (1 + wide), 4), 16, 1)
        trials.append(a_trial(number, ratio, config=config, stage=source.choice(["screen", "search"])))
    return trials


def a_named_result(names: list[str]) -> ResultData:
    """A result that carries ``names``, in turn, in every place that holds text of a user."""
    place = _Names(names)
    return a_result(
        advisor_version=place(), command=[place() for _ in names], created=place(), study=place(),
        target=Target(path=place(), kind="script", args=list(names), digest=place()),
        machine={
            "cpu_model": place(), "torch": place(), "host": place(), "disturbed_by": list(names),
            "gpus": [{"name": name, "memory_bytes": 2**30} for name in names],
            **{f"{index} {name}": {name: [name]} for index, name in enumerate(names)},
        },
        noise=Noise(
            aa_ratio=a_ratio(1.0, 0.99, 1.01), smallest_detectable=0.02,
            excluded_slots={f"{index} {name}": 1 for index, name in enumerate(names)},
        ),
        profile=ProfileSummary(
            phases_ms={f"{name}{index}": 1.5 for index, name in enumerate(names)},
            periodic_s={f"{name}{index}": 1.5 for index, name in enumerate(names)},
        ),
        trials=[
            some_trials()[0],
            *(
                a_trial(
                    index, config=NOW | {"amp": name, f"k{name}": name}, state="failed", cause="user_error",
                    message=name, log=name, marks=[name], applied=[name], refused={name: name},
                )
                for index, name in enumerate(names, 1)
            ),
            a_trial(len(names) + 1, a_ratio(1.2, 1.1, 1.3), config=NOW | {"amp": place()}),
        ],
        findings=[
            {
                "rule": name, "kind": "waste", "state": "opportunity", "title": name, "advice": name,
                "location": {"file": name, "line": 3, "function": name}, "evidence": {f"{index}{name}": name},
                "knobs": [name],
            }
            for index, name in enumerate(names)
        ],
        recommendation=a_recommendation(
            numerics_reason=place(), reason=place(),
            changes=[
                an_adopted(
                    knob=name, before=name, to=name, semantics="exact", snippet=name,
                    environment={f"E{index}{name}": name},
                )
                for index, name in enumerate(names)
            ],
            proposals=[Proposal(knob=name, to=name, reason=name, snippet=name) for name in names],
        ),
        not_tried=[Untried(knob=name, value=name, reason=name) for name in names],
        warnings=list(names),
    )  # fmt: skip


def a_hostile_result() -> ResultData:
    return a_named_result(HOSTILE)


def a_harmless_twin() -> ResultData:
    """The same result with plain names; a name of which nothing can be shown is empty here too."""
    return a_named_result(PLAIN)


def a_finding(rule: str = "input_bound", state: str = "opportunity", **fields: Any) -> Finding:
    """A finding as it stands in a result: what fired is of medium severity and wastes time."""
    fired = state in ("opportunity", "diagnostic")
    values = {"kind": "waste", "severity": "medium" if fired else None, "title": f"what {rule} says"}
    return Finding.model_validate({"rule": rule, "state": state} | values | fields)


def a_ceiling(share: float, low: float, high: float, source: str = "replay", of: str = "step") -> Any:
    return {"share": share, "low": low, "high": high, "from": source, "of": of}


def some_findings() -> list[Finding]:
    """One of every state, the cause before its symptom."""
    return [
        a_finding(
            "slow_item", severity="high", title="41 % of each step waits for items that take 1.2 ms each",
            location={"file": "train.py", "line": 11, "function": "__getitem__"},
            ceiling=a_ceiling(0.41, 0.38, 0.44), explains="input_bound",
            evidence={"item_ms": 1.2, "items_per_step": 64.0}, knobs=["num_workers", "in_memory_cache"],
            advice="Decode items once and store them: `torch.save(items, path)`.",
        ),
        a_finding(
            severity="high", title="42 % of each step waits for data",
            location={"file": "train.py", "line": 42, "function": "main"},
            ceiling=a_ceiling(0.41, 0.38, 0.44), evidence={"input_wait_ms": 16.2, "step_ms": 38.4},
            advice="Make batches in worker processes: `DataLoader(..., num_workers=2)`.",
            knobs=["num_workers", "prefetch_factor"],
        ),
        a_finding(
            "amp_unused", kind="headroom", title="71 % of compute is in float32 where 16 bits would do",
            ceiling=a_ceiling(0.24, 0.17, 0.31, "model"), advice="Autocast.", knobs=["amp"],
        ),
        a_finding(
            "memory_growth", "diagnostic", kind="risk", severity="high", title="120 MiB more memory",
            advice="Keep numbers, not tensors.",
        ),
        a_finding("optimizer_bound", "passed", title="4.2 % of each step updates parameters"),
        a_finding("idle_device", "not_applicable", title="device timeline: needs a GPU"),
        a_finding("graph_breaks", "error", title="KeyError: 'frames'"),
    ]  # fmt: skip


def a_profile_result(**fields: Any) -> ProfileData:
    """A realistic profile of a script; any field of ``ProfileData`` may be replaced."""
    full = a_result()
    summary = full.profile.model_copy(
        update={
            "steps": 93, "summary": "41 % of each step waits for items that take 1.2 ms each",
            "recording": Recording(steps=20, events_per_step=529, overhead=0.024, residual=0.003),
            "operators": [
                Operator(name="aten::mm", phase="backward", calls=4, self_ms=6.31, dtype="float32",
                         shapes=[[64, 128], [128, 10]], location="train.py:52"),
                Operator(name="aten::empty", phase="forward", calls=20, self_ms=0.021),
            ],
            "memory_bytes": {"parameter": 3 * 2**20, "activation": 41 * 2**20},
            "replays": {"loader_free": Interval(estimate=0.41, low=0.38, high=0.44),
                        "double_batch": Interval(estimate=1.22, low=1.15, high=1.29)},
            "replays_refused": {"optimizer_off": "the optimizer takes a closure"},
            "rates": {"matmul_float32_flops": 60.9e9, "dispatch_us": 4.43}, "roofline": {"flops": 0.31},
            "notes": ["the time did not allow every stage of the diagnosis"],
        }
    )  # fmt: skip
    values: dict[str, Any] = {
        "advisor_version": "0.1.0", "command": ["profile", "train.py", "--", "--epochs", "1"],
        "created": full.created, "seed": 0, "target": full.target, "machine": MACHINE,
        "baseline": full.baseline, "profile": summary, "findings": some_findings(),
        "warnings": full.warnings, "budget": Budget(seconds=38.2, trials=0, stopped_by="converged"),
    }  # fmt: skip
    return ProfileData(**(values | fields))


class _Names:
    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.next = 0

    def __call__(self) -> str:
        self.next += 1
        return self.names[self.next % len(self.names)]
