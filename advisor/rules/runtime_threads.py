"""A runtime starts more threads than this process may use."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule
from advisor.profiles.facts.profile import Profile


class RuntimeThreads(Rule):
    """ONNX Runtime takes one thread per physical core of the machine, whatever a container allows.

    More threads than CPUs take turns, and each waits for the slowest: an operator takes as long as the
    scheduler leaves one of them standing. Say how many: `options.intra_op_num_threads = 2` in
    `SessionOptions`, the CPUs of the process divided by the sessions that run at once.
    """

    family = Family.HOST
    kind = Kind.RISK
    timed = False
    explains = ("unstable_steps", "thread_collapse")
    on_traces = "sessions: a trace does not show their threads"
    threshold = "a session with more threads than CPUs are allowed (documentation of ONNX Runtime)"

    def check(self, profile: Profile) -> Finding:
        served, machine = profile.served, profile.machine
        if served is None or not served.sessions:
            return self.not_applicable("sessions", "the program makes none of ONNX Runtime")
        asked = {each.threads or machine.physical_cores: each for each in served.sessions}
        threads = max(asked)
        said = f"{threads} threads of a session, {machine.cpus_allowed} CPUs are allowed"
        if threads <= machine.cpus_allowed:
            return self.passed(said)
        return self.diagnostic(
            said,
            advice=f"Set `options.intra_op_num_threads = {machine.cpus_allowed}` in `SessionOptions`, less "
            "where several run at once.",
            location=asked[threads].location,
            evidence={"threads": threads, "cpus_allowed": machine.cpus_allowed},
        )
