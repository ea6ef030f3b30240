"""Threads of a runtime keep CPUs busy that torch needs in the same request."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.facts.profile import Profile

TORCH = 0.05  # of a request, from where torch's part matters (set by experiment)


class SpinningRuntime(Rule):
    """Threads of ONNX Runtime wait busily for the next operator, for a while after a request, too.

    Torch's own threads then find no CPU: its operators after `session.run` took up to 50 times as long
    (onnxruntime 13808), and the CPUs are paid for while nothing is answered. Let them sleep:
    `options.add_session_config_entry("session.intra_op.allow_spinning", "0")`. A session alone in its process
    answers somewhat later with that, and keeps its spinning where nothing else wants the CPUs.
    """

    family = Family.HOST
    kind = Kind.RISK
    timed = False
    explains = ("unstable_steps", "thread_collapse")
    on_traces = "sessions: a trace does not show how they wait"
    threshold = f"a session with threads that spin, {percent(TORCH)} of a request in torch (by experiment)"

    def check(self, profile: Profile) -> Finding:
        served, phases, machine = profile.served, profile.phases, profile.machine
        if served is None or not served.sessions:
            return self.not_applicable("sessions", "the program makes none of ONNX Runtime")
        spinning = [each for each in served.sessions if each.spinning and _threads(each.threads, profile) > 1]
        in_torch_ms = max(0.0, phases.forward_ms - served.session_ms) if phases is not None else 0.0
        torch = in_torch_ms / phases.step_ms if phases is not None and phases.step_ms > 0 else 0.0
        if not spinning:
            return self.passed(f"0 of {len(served.sessions)} sessions wait busily in other threads")
        if torch < TORCH or profile.run is None or profile.run.num_threads < 2:
            return self.passed(f"{percent(torch)} of a request computes in torch beside sessions that spin")
        threads = _threads(spinning[0].threads, profile)
        return self.diagnostic(
            f"{percent(torch)} of each request computes in torch beside {threads} threads that spin",
            advice="Let the runtime's threads sleep: `options.add_session_config_entry("
            '"session.intra_op.allow_spinning", "0")`.',
            location=spinning[0].location,
            evidence={"threads": threads, "torch_share": round(torch, 3), "cpus": machine.cpus_allowed},
        )


def _threads(asked: int, profile: Profile) -> int:
    return asked or profile.machine.physical_cores
