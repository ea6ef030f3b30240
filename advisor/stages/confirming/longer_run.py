"""A winner runs for longer than it was measured: memory that only grows shows itself late."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from advisor.profiles.facts.profile import Profile
from advisor.rules.kept_batches import KeptBatches
from advisor.rules.limit_ahead import LimitAhead, limits_ahead, told
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.comparing.ways import WINDOWS
from advisor.tuners.comparing.windows import HOPELESS
from advisor.tuners.knob import Value
from advisor.tuners.launching.rank_group import Running
from advisor.tuners.launching.session import SessionEnded

TIMES = 3  # the usual steps, where that does not take long (measurement.md, section 4, rule 5)
SHOWN = (80, 4.0)  # steps of a process that show a growth; more, where they take no longer than these seconds
LEAST_S = 10.0  # that a run may take beside what its steps should


@dataclass(frozen=True)
class LongerRun:
    """What one process had used of memory when it was through.

    Attributes:
        steps: That it ran; fewer than asked for where the program came to its own end.
        peak_bytes: Of the device where there is one, else of the host.
        growth_bytes_per_step: Of the peak after the usual steps; ``None`` where it ended before them.
        refused: Settings that no longer acted at its end, by knob with the reason.
        profile: What its hooks had seen after the last steps; ``None`` where it ended before.
    """

    steps: int
    peak_bytes: int
    growth_bytes_per_step: float | None
    refused: Mapping[str, str] = field(default_factory=dict)
    profile: Profile | None = None


def usual_steps(arena: Arena, config: Mapping[str, Value], how: str, quads: int) -> int:
    """Steps that a process of a confirmation takes under a configuration."""
    if how == WINDOWS:
        return sum(arena.window_steps(config, fresh=True))
    return 2 * quads * (arena.steps() + 1)


def steps_more(usual: int, step_s: float) -> int:
    """Steps of a process that has made the usual ones, after which what grows has shown itself.

    Args:
        usual: That it has made.
        step_s: Seconds of a step of the unchanged program.
    """
    steps, seconds = SHOWN
    return min((TIMES - 1) * usual, max(steps - usual, usual // 2, math.ceil(seconds / max(step_s, 1e-6))))


def run_longer(
    arena: Arena,
    config: Mapping[str, Value],
    steps: int,
    number: int,
    running: Running | None = None,
    *,
    switched: bool = False,
) -> tuple[LongerRun, Running]:
    """Make as many steps more as ``steps_more`` says in one process, and look at its memory.

    Args:
        arena: Starts one where none runs.
        config: What is to be recommended.
        steps: The usual ones.
        number: Of the trial.
        running: A process that has made these already, of the trial's own or of another setting as well.
        switched: It has to be switched to ``config``.

    Returns:
        What was seen, and the process, which goes on unless the program has come to its end.

    Raises:
        TrialFailed: It failed, which is what is to be found out.
    """
    session = running or arena.start(config, number)
    peaks: list[tuple[int, int]] = []
    taken, profile = 0 if running is None else steps, None
    try:
        if running is None:
            session.first_step()
        else:
            peaks.append((taken, session.facts().profile.peak_bytes))
        more = steps_more(steps, arena.step_s)
        for count in (more,) if peaks else (steps, more):
            limit_s = LEAST_S + HOPELESS / 2 * count * arena.step_s
            session.slot(count, drop=0, limit_s=limit_s, config=config if switched else None)
            taken += len(session.last.wall_ns)
            profile = session.facts().profile
            peaks.append((taken, profile.peak_bytes))
    except SessionEnded as ended:
        outcome, growth = ended.outcome, _growth(peaks)
        return LongerRun(outcome.steps, outcome.highest_bytes, growth, outcome.refused, profile), session
    except BaseException:
        session.kill()
        raise
    return LongerRun(taken, peaks[-1][1], _growth(peaks), session.last.refused, profile), session


def limited_by(
    config: Mapping[str, Value], run: LongerRun | None, baseline: Profile, planned_steps: int | None
) -> str:
    """What wins each trial may meet a limit later: that is said first; empty for none.

    Args:
        config: What is recommended.
        run: Of it.
        baseline: As of ``ends_early``.
        planned_steps: As of ``ends_early``.
    """
    early = "" if run is None else ends_early(run, baseline, planned_steps)
    return early or lasts_by(config, baseline)


def ends_early(run: LongerRun, baseline: Profile, planned_steps: int | None) -> str:
    """Which limit of the system a configuration meets within the planned training; empty for none.

    Args:
        run: Of the configuration.
        baseline: Of the program as it is, whose length is that of the training.
        planned_steps: Of the training, where the user said so.
    """
    if run.profile is None or baseline.run is None:
        return ""
    length = replace(baseline.run, steps_total=planned_steps or baseline.run.steps_total)
    profile = replace(run.profile, run=length, phases=run.profile.phases or baseline.phases)
    ahead = limits_ahead(profile)
    if not ahead:
        return ""
    finding = LimitAhead().check(profile)
    return f"it will not last: {told(profile, ahead[0])}. {finding.advice}"


def lasts_by(config: Mapping[str, Value], baseline: Profile) -> str:
    """Which setting of a configuration keeps it from a limit that its workers alone would meet; else empty.

    Args:
        config: What is recommended.
        baseline: Of the program as it is.
    """
    kept = KeptBatches().check(baseline)
    if not kept.fired or not config.get("num_workers") or config.get("sharing_strategy") != "file_system":
        return ""
    return f"{kept.title}; so with workers comes `sharing_strategy`, by which none is held open"


def _growth(peaks: list[tuple[int, int]]) -> float | None:
    if len(peaks) < 2 or not all(peak for _, peak in peaks):
        return None
    (first, before), (last, after) = peaks
    return (after - before) / (last - first)
