from builders import a_profile, a_share

from advisor.advice.finding import Severity, State
from advisor.profiles.facts.observed import Location, RankFacts
from advisor.profiles.facts.profile import RunFacts
from advisor.profiles.facts.replayed import Replays
from advisor.rules.debug_mode import DebugMode

HERE = Location("train.py", 3)


def test_the_step_without_anomaly_detection_is_the_ceiling() -> None:
    profile = a_profile(
        run=RunFacts(debug=("anomaly",), debug_location=HERE), replays=Replays(debug_off=a_share(0.4))
    )
    finding = DebugMode().check(profile)
    assert finding.ceiling is not None
    assert (finding.ceiling.share, finding.ceiling.source) == (0.4, "replay")
    assert (finding.severity, finding.location) == (Severity.HIGH, HERE)
    assert finding.title == "40 % of each step goes to anomaly detection"
    assert "Remove `torch.autograd.set_detect_anomaly(True)`" in finding.advice


def test_anomaly_detection_that_costs_nothing_passes_with_its_number() -> None:
    profile = a_profile(run=RunFacts(debug=("anomaly",)), replays=Replays(debug_off=a_share(0.01)))
    finding = DebugMode().check(profile)
    assert finding.state is State.PASSED and finding.title.startswith("1.0 %")


def test_without_a_replay_it_is_said_without_a_ceiling() -> None:
    finding = DebugMode().check(a_profile(run=RunFacts(debug=("anomaly",))))
    assert (finding.state, finding.severity) == (State.DIAGNOSTIC, Severity.MEDIUM)
    assert finding.knobs == ("detect_anomaly",)


def test_several_aids_are_named_and_the_costliest_is_advised_first() -> None:
    finding = DebugMode().check(a_profile(run=RunFacts(debug=("gradcheck", "profiler"))))
    assert finding.title == "2 debugging aids left on: profiler, gradcheck"
    assert finding.advice.startswith("End the profiler") and finding.knobs == ()


def test_blocking_launches_cost_only_where_there_are_launches() -> None:
    run = RunFacts(debug=("launch_blocking",))
    assert DebugMode().check(a_profile(run=run)).state is State.PASSED
    assert "CUDA_LAUNCH_BLOCKING" in DebugMode().check(a_profile(run=run, device="cuda:0")).advice


def test_distributed_debugging_costs_only_where_there_are_ranks() -> None:
    run = RunFacts(debug=("distributed_debug",))
    assert DebugMode().check(a_profile(run=run)).state is State.PASSED
    assert DebugMode().check(a_profile(run=run, ranks=(RankFacts(0, 1.0),))).state is State.DIAGNOSTIC


def test_a_run_without_aids_passes() -> None:
    finding = DebugMode().check(a_profile(run=RunFacts()))
    assert (finding.state, finding.title) == (State.PASSED, "0 debugging aids are on")
