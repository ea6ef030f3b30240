"""Does the numerics check call equal what is equal, and catch what is wrong?

    python -m benchmarks.numerics
    python -m benchmarks.numerics --only bert resnet

On each workload: every knob that claims to change nothing (class exact) and applies there must come out
``identical``; three mistakes (``benchmarks/wrong_candidate.py``) must come out ``drifts``, whatever class
the change claims to be of, and a learning rate that is 1 % too high where only rounding is claimed to differ;
memory layout must not, neither beside dropout, which draws other masks, nor without, where only rounding
differs, which training can make grow: most of all in ``benchmarks/fashion.py``. Other load does not matter:
nothing is timed.
"""

import argparse
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from advisor.profiles.facts.profile import Profile
from advisor.tuners.comparing import gate
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.comparing.roundings import Nudged
from advisor.tuners.knob import Semantics, Value
from advisor.tuners.knobs import KNOBS
from advisor.tuners.launching.launch import Launcher
from advisor.tuners.space.space import build_space
from advisor.tuners.supervision.failures import TrialFailed
from advisor.tuners.trial.spec import Target
from benchmarks.conditions import conditions

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "numerics.json"
WORKLOADS = ("resnet", "lenet", "mlp", "bert", "gpt2", "vit", "lstm_lm", "unet", "dropout_cnn", "fashion")
FAULTS = ("none", "scaled", "overflow", "no_dropout", "faster")
CLAIMS = (Semantics.ROUNDING, Semantics.PRECISION)
ROUNDING_ONLY = ("none", "faster")  # one in a hundred of the rate is less than fewer bits may change
STEPS = 20
LEFT_OUT = ("power_limit", "cpu_affinity")  # they act on the machine, not on a program


@dataclass(frozen=True)
class Judged:
    """One change and what the check said of it."""

    workload: str
    change: str
    claimed: str
    verdict: str
    reason: str
    has_dropout: bool = False


def main() -> None:
    """Judge, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=WORKLOADS, default=WORKLOADS, metavar="WORKLOAD")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    judged: list[Judged] = []
    for workload in options.only:
        for one in judge(workload):
            judged.append(one)
            print(
                f"{one.workload:8} {one.change:32} as {one.claimed:9} {one.verdict:12} {one.reason}",
                flush=True,
            )
    found = {
        "conditions": conditions(),
        "summary": summary(judged),
        "judged": [asdict(one) for one in judged],
    }
    print(json.dumps(found["summary"], indent=1))
    options.out.write_text(json.dumps(found, indent=1) + "\n")


def summary(judged: list[Judged]) -> dict[str, str]:
    """How many came out as they should."""
    exact = [one for one in judged if one.claimed == "exact"]
    layout = [one for one in judged if one.change == "channels_last=on"]
    wrong = [one for one in judged if one.change in FAULTS[1:]]
    return {
        "exact knobs identical": _share([one.verdict == "identical" for one in exact]),
        "workloads with exact knobs, all identical": _share(
            [
                all(one.verdict == "identical" for one in exact if one.workload == name)
                for name in sorted({one.workload for one in exact})
            ]
        ),
        **{
            f"{fault} caught": _share([one.verdict == "drifts" for one in wrong if one.change == fault])
            for fault in FAULTS[1:]
        },
        "unchanged script not accused": _share(
            [one.verdict == "identical" for one in judged if one.change == "none"]
        ),
        **{
            f"channels_last {name} not accused": _share(
                [one.verdict != "drifts" for one in layout if one.has_dropout is dropout]
            )
            for name, dropout in (("beside dropout", True), ("without dropout", False))
        },
    }


def _share(came_true: list[bool]) -> str:
    return f"{sum(came_true)} of {len(came_true)}"


def judge(workload: str) -> Iterator[Judged]:
    """Everything that is tried on one workload."""
    script = next(HERE.glob(f"**/{workload}.py"))
    with arena_of(Target("script", str(script))) as arena:
        profile = facts(arena)
        space = build_space(KNOBS, profile, named=dict.fromkeys(_exact(profile)) or None)
        arena.present = space.own
        base = space.present
        judging = Judging(arena, workload, profile, gate.reference(arena, base, STEPS), _nudged(arena, base))
        for name, values in space.choices.items():
            config = space.complete({name: values[1]})
            yield judging.change(config, f"{name}={values[1]}", KNOBS[name].semantics)
        layout = build_space(KNOBS, profile, named={"channels_last": None})
        if "channels_last" in layout.choices:
            arena.present = layout.own
            config = layout.complete({"channels_last": "on"})
            yield judging.change(config, "channels_last=on", Semantics.ROUNDING)
            arena.present = space.own
        for fault in FAULTS:
            if fault != "no_dropout" or judging.has_dropout:
                yield from judging.mistake(fault, script)


def _nudged(arena: Arena, base: Mapping[str, Value]) -> Nudged:
    return Nudged(lambda seed: gate.learn(arena, base, STEPS, nudge=seed).losses)


@dataclass(frozen=True)
class Judging:
    """What changes of one workload are held against."""

    arena: Arena
    workload: str
    profile: Profile
    known: gate.Reference
    nudged: Nudged

    @property
    def has_dropout(self) -> bool:
        """Whether the model of the workload has dropout."""
        return any(root.has_dropout for root in self.profile.roots)

    def change(self, config: Mapping[str, Value], change: str, semantics: Semantics) -> Judged:
        """A setting of one knob."""
        name = change.partition("=")[0]
        try:
            learned = gate.learn(self.arena, config, STEPS)
        except TrialFailed as failed:
            return Judged(self.workload, change, semantics.value, "failed", failed.failure.message)
        if name in learned.refused:
            return Judged(self.workload, change, "refused", "refused", learned.refused[name])
        draws = gate.own_draws([name], has_dropout=self.has_dropout, loader_is_live=True)
        said = self._said(learned, semantics, own_draws=draws)
        return Judged(self.workload, change, semantics.value, said.verdict, said.reason, self.has_dropout)

    def mistake(self, fault: str, script: Path) -> Iterator[Judged]:
        """The workload with a mistake in it, under each class that its change may claim to be of."""
        with arena_of(Target("script", str(HERE / "wrong_candidate.py"), (fault, str(script)))) as wrong:
            learned = gate.learn(wrong, {}, STEPS)
        for claim in CLAIMS[:1] if fault in ROUNDING_ONLY else CLAIMS:
            said = self._said(learned, claim, own_draws=False)
            yield Judged(self.workload, fault, claim.value, said.verdict, said.reason)

    def _said(self, learned: gate.Learning, semantics: Semantics, *, own_draws: bool) -> gate.Verdict:
        return gate.judge(
            self.known,
            learned.losses,
            semantics,
            own_draws=own_draws,
            norms=learned.grad_norms,
            nudged=self.nudged,
        )


def _exact(profile: Profile) -> list[str]:
    return [
        name for name, knob in KNOBS.items()
        if knob.semantics is Semantics.EXACT and name not in LEFT_OUT
    ]  # fmt: skip


@contextmanager
def arena_of(target: Target) -> Iterator[Arena]:
    """Starts processes of a script."""
    with tempfile.TemporaryDirectory() as folder, Launcher(target, Path(folder), device="cpu") as launcher:
        yield Arena(launcher, KNOBS, {})


def facts(arena: Arena) -> Profile:
    """What a short run shows of a program."""
    session = arena.launcher.start(0, {}, {})
    try:
        session.first_step()
        session.slot(10, drop=1)
        return session.facts().profile
    finally:
        session.kill()


if __name__ == "__main__":
    main()
