"""Do the numerics check in one process and the one in fresh processes say the same?

    python -m benchmarks.numerics_agreement
    python -m benchmarks.numerics_agreement --workload mlp lstm_lm
    python -m benchmarks.numerics_agreement --short --workload bert

On each workload: every knob that one process can switch to, and the mistakes of
``benchmarks/wrong_candidate.py`` under the claim that only rounding differs. ``--short`` takes fewer steps
and one knob of each class. A workload whose loop does not repeat itself from a kept state is listed with
the reason: there only fresh processes can tell. Rows of workloads that are not run now stay in the file.
Other load does not matter: nothing is timed.
"""

import argparse
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from advisor.profiles.facts.profile import Profile
from advisor.tuners.comparing import gate
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.comparing.roundings import Nudged
from advisor.tuners.comparing.same_process import CannotRepeat, SameProcess
from advisor.tuners.knob import Semantics
from advisor.tuners.knobs import KNOBS
from advisor.tuners.space.space import build_space
from advisor.tuners.supervision.failures import TrialFailed
from advisor.tuners.trial.spec import Target
from benchmarks.conditions import conditions
from benchmarks.numerics import FAULTS, HERE, LEFT_OUT, STEPS, arena_of, facts

RESULTS = HERE / "results" / "numerics_agreement.json"
WORKLOADS = ("resnet", "lenet", "mlp", "bert", "gpt2", "vit", "lstm_lm", "unet", "gan")
SHORT_STEPS = 6
NONE = "none"
DRIFTS = "drifts"  # which is never recommended; both other verdicts can be


@dataclass(frozen=True)
class Compared:
    """What both ways said of one change; ``inside`` is the reason where one process could not tell."""

    workload: str
    change: str
    inside: str
    fresh: str
    agree: bool | None
    steps: int


def main() -> None:
    """Compare, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workload", nargs="+", choices=WORKLOADS, default=WORKLOADS, metavar="WORKLOAD")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    rows = [row for row in _known(options.out) if row.workload not in options.workload]
    for workload in options.workload:
        for row in compare(workload, short=options.short):
            rows.append(row)
            same = {True: "agree", False: "DIFFER", None: "only fresh"}[row.agree]
            print(f"{row.workload:8} {row.change:32} {row.inside:14} {row.fresh:14} {same}", flush=True)
        found = {"conditions": conditions(), "summary": summary(rows), "compared": list(map(asdict, rows))}
        options.out.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(summary(rows), indent=1))


def _known(path: Path) -> list[Compared]:
    if not path.exists():
        return []
    return [Compared(**row) for row in json.loads(path.read_text())["compared"]]


def summary(rows: list[Compared]) -> dict[str, str]:
    """How often both came to the same, and where one process could tell at all."""
    told = [row for row in rows if row.agree is not None]
    workloads = sorted({row.workload for row in rows})
    return {
        "same verdict": f"{sum(bool(row.agree) for row in told)} of {len(told)}",
        "same decision": (
            f"{sum((row.inside == DRIFTS) == (row.fresh == DRIFTS) for row in told)} of {len(told)}"
        ),
        "workloads that one process could tell": (
            f"{len({row.workload for row in told})} of {len(workloads)}"
        ),
        **{
            f"{fault} caught in one process": (
                f"{sum(row.inside == 'drifts' for row in told if row.change == fault)} of "
                f"{sum(row.change == fault for row in told)}"
            )
            for fault in FAULTS[1:]
        },
    }


def compare(workload: str, *, short: bool = False) -> Iterator[Compared]:
    """Everything that is tried on one workload."""
    script = next(HERE.glob(f"**/{workload}.py"))
    with tempfile.TemporaryDirectory() as folder:
        fault = Path(folder) / "fault"
        fault.write_text(NONE)
        target = Target("script", str(HERE / "wrong_candidate.py"), (f"switched:{fault}", str(script)))
        with arena_of(target) as arena:
            yield from _Both(arena, workload, fault, facts(arena), short).rows()


@dataclass
class _Both:
    """Runs one workload both ways."""

    arena: Arena
    workload: str
    fault: Path
    profile: Profile
    short: bool

    def rows(self) -> Iterator[Compared]:
        """Of every change."""
        live = [name for name, knob in KNOBS.items() if knob.live and name not in LEFT_OUT]
        space = build_space(KNOBS, self.profile, named=dict.fromkeys(live))
        self.arena.present, base, steps = space.own, space.present, self._steps
        fresh = gate.reference(self.arena, base, steps)
        anew = Nudged(lambda number: gate.learn(self.arena, base, steps, nudge=number).losses)
        session = self.arena.start(base, 0)
        try:
            session.first_step()
            process = SameProcess(session, base, steps)
            try:
                inside = process.reference()
            except (CannotRepeat, TrialFailed) as reason:
                yield Compared(self.workload, "all", str(reason), "", None, steps)
                return
            repeated = Nudged(process.nudged)
            changes = [(name, space.choices[name][1], NONE) for name in self._knobs(space.choices)]
            changes += [("", "", fault) for fault in FAULTS if fault != "no_dropout" or self._has_dropout]
            for name, value, fault in changes:
                config = space.complete({name: value}) if name else base
                semantics = KNOBS[name].meaning(config) if name else Semantics.ROUNDING
                draws = gate.own_draws([name], has_dropout=self._has_dropout, loader_is_live=False)
                self.fault.write_text(fault)
                said: list[str] = []
                for reference, nudged, run in (
                    (inside, repeated, process.learn),
                    (fresh, anew, lambda config: gate.learn(self.arena, config, steps)),
                ):
                    try:
                        learned = run(config)
                    except (CannotRepeat, TrialFailed) as end:
                        said.append(f"failed: {end}")
                        continue
                    if name in learned.refused:
                        said.append("refused")
                        continue
                    self.fault.write_text(NONE)  # nudged runs are those of the right program
                    verdict = gate.judge(
                        reference,
                        learned.losses,
                        semantics,
                        own_draws=draws,
                        norms=learned.grad_norms,
                        nudged=nudged,
                    )
                    said.append(verdict.verdict)
                    self.fault.write_text(fault)
                self.fault.write_text(NONE)
                change = f"{name}={value}" if name else fault
                yield Compared(self.workload, change, said[0], said[1], said[0] == said[1], steps)
        finally:
            session.kill()

    def _knobs(self, names: Iterable[str]) -> list[str]:
        """Those that are tried: of each class one, where it is to be short."""
        of_class = {KNOBS[name].semantics: name for name in names}
        return list(of_class.values()) if self.short else list(names)

    @property
    def _steps(self) -> int:
        return SHORT_STEPS if self.short else STEPS

    @property
    def _has_dropout(self) -> bool:
        return any(root.has_dropout for root in self.profile.roots)


if __name__ == "__main__":
    main()
