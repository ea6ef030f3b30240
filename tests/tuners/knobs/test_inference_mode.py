from typing import Any

import pytest
import torch
from builders import a_profile, a_run
from torch import nn

from advisor.profiles.hooks.clock import Clock
from advisor.profiles.hooks.watch import Watch
from advisor.profiles.profile import Profile, RunFacts
from advisor.profiles.run import Run
from advisor.tuners.knob import Refused
from advisor.tuners.knobs.inference_mode import InferenceMode

GRAPH, NO_GRAPH, INFERENCE = (True, False), (False, False), (False, True)


class Net(nn.Module):
    """Notes the modes in which it runs."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(2, 1)
        self.modes: list[tuple[bool, bool]] = []

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.modes.append((torch.is_grad_enabled(), torch.is_inference_mode_enabled()))
        output: torch.Tensor = self.layer(inputs)
        return output


class Program:
    """One training step and one evaluation that records a graph, again and again."""

    def __init__(self, run: Run) -> None:
        self.watch = Watch(run, Clock(lambda step: None))
        self.watch.install()
        self.model = Net()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def train(self) -> None:
        """One update."""
        self.model.modes.clear()
        self.model.train()
        self.optimizer.zero_grad()
        self.model(torch.ones(4, 2)).pow(2).mean().backward()
        self.optimizer.step()

    def step(self) -> torch.Tensor:
        """Train, evaluate; what the evaluation gave."""
        self.train()
        self.model.eval()
        output: torch.Tensor = self.model(torch.ones(4, 2))
        return output


def a_run_of(value: str) -> Run:
    run = a_run(inference_mode=InferenceMode())
    run.configure({"inference_mode": value} if value != "grad" else {})
    return run


@pytest.mark.parametrize(
    ("value", "modes"),
    [("grad", [GRAPH, GRAPH]), ("no_grad", [GRAPH, NO_GRAPH]), ("inference_mode", [GRAPH, INFERENCE])],
)
def test_evaluation_alone_runs_in_the_mode(value: str, modes: list[Any]) -> None:
    run = a_run_of(value)
    program = Program(run)
    program.step()
    output = program.step()
    program.watch.remove()
    assert program.model.modes == modes
    assert output.requires_grad is (value == "grad")
    assert output.is_inference() is (value == "inference_mode")
    assert run.unanswered() == []


def test_evaluation_computes_the_same() -> None:
    outputs = []
    for value in ("grad", "no_grad", "inference_mode"):
        program = Program(a_run_of(value))
        outputs.append([program.step() for _ in range(3)][-1].detach().clone())
        program.watch.remove()
    assert torch.equal(outputs[0], outputs[1]) and torch.equal(outputs[0], outputs[2])


def test_a_live_switch_takes_effect_and_comes_back() -> None:
    run = a_run_of("grad")
    program = Program(run)
    seen = []
    for value in ("inference_mode", "no_grad", None):
        run.configure({} if value is None else {"inference_mode": value})
        program.step()
        seen.append(program.model.modes[1])
    program.watch.remove()
    assert seen == [INFERENCE, NO_GRAPH, GRAPH]


def test_without_an_evaluation_it_is_refused_and_not_counted_as_applied() -> None:
    run = a_run_of("no_grad")
    program = Program(run)
    program.train()
    refused = {"inference_mode": "no evaluation ran in the measured steps"}
    assert (run.applied, run.declined, run.unanswered()) == (set(), refused, [])
    program.step()
    assert (run.applied, run.declined, run.unanswered()) == ({"inference_mode"}, {}, [])
    run.measure_anew()
    program.train()
    assert (run.applied, run.declined) == (set(), refused)
    program.step()
    program.watch.remove()
    assert (run.applied, run.declined) == ({"inference_mode"}, {})


def test_several_ranks_are_refused() -> None:
    run = a_run_of("grad")
    run.configure({"inference_mode": "no_grad", "ranks": 2})
    assert run.refused == {"inference_mode": "evaluations are timed in one process only"}


def evaluating(**facts: Any) -> Profile:
    return a_profile(run=RunFacts(**{"evaluations": 2, "evaluation_every": 50.0, **facts}))


@pytest.mark.parametrize(
    ("graph", "choices"),
    [(True, ["grad", "no_grad", "inference_mode"]), (False, ["no_grad", "inference_mode"])],
)
def test_the_programs_own_mode_comes_first(graph: bool, choices: list[str]) -> None:
    assert InferenceMode().choices(evaluating(evaluation_records_graph=graph)) == choices


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        (a_profile(), "no evaluation was seen"),
        (evaluating(evaluation_records_graph=None), "no evaluation was seen"),
        (evaluating(evaluation_records_graph=True, evaluations=0), "no evaluation was seen"),
        (evaluating(evaluation_records_graph=True, evaluation_every=1.0), "runs in every step"),
        (evaluating(evaluation_records_graph=True, evaluation_every=None), "from one to the next"),
        (evaluating(evaluation_records_graph=True, evaluation_s=12.0), "come every 6 s"),
    ],
)
def test_where_nothing_can_be_compared_or_autograd_may_be_met_the_reason_is_said(
    profile: Profile, reason: str
) -> None:
    with pytest.raises(Refused, match=reason):
        InferenceMode().choices(profile)


def test_what_the_user_writes() -> None:
    assert InferenceMode().change("inference_mode").snippet.startswith("with torch.inference_mode():")
