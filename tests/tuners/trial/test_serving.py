"""A workload's model answers requests in a real process, and leaves its outputs for unseen samples."""

import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from advisor.base.unit import Unit
from advisor.profiles.events import Config
from advisor.tuners.launching.launch import Launcher
from advisor.tuners.launching.rank_group import Running
from advisor.tuners.supervision.failures import TrialFailed
from advisor.tuners.trial.numerics.kept_outputs import KeptOutputs, digest, plain
from advisor.tuners.trial.served_messages import InputsTaken, OutputsTaken, Part, TakeInputs, TakeOutputs
from advisor.tuners.trial.spec import Target

Launch = Callable[..., Running]

pytestmark = pytest.mark.usefixtures("warm_trials")

WORKLOAD = """
    import torch, advisor

    class Items(torch.utils.data.Dataset):
        def __len__(self): return 40
        def __getitem__(self, index):
            return torch.full((4,), float(index)), index % 2

    workload = advisor.Workload(
        model=lambda: torch.nn.Linear(4, 2), dataset=Items,
        metric=lambda output, target: float(output.argmax().item() == target.item()),
    )
"""
UNLIKE = """
    import torch, advisor

    class Words(torch.utils.data.Dataset):
        def __len__(self): return 64
        def __getitem__(self, index):
            return torch.ones(1 + 7 * index % 8, 4), index % 2

    class Mean(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 2)
        def forward(self, words):
            return self.layer(words)

    def collate(items):
        words = torch.nn.utils.rnn.pad_sequence([words for words, _ in items], batch_first=True)
        return words, torch.tensor([target for _, target in items])

    workload = advisor.Workload(model=Mean, dataset=Words, collate=collate, batch_size=4)
"""
ALONE = """
    import torch, advisor

    workload = advisor.Workload(
        model=lambda: torch.nn.Linear(4, 2),
        dataset=lambda: torch.utils.data.TensorDataset(torch.arange(40.0).repeat(4, 1).T),
    )
"""
TOTAL = """
    import torch, advisor

    class Total(torch.nn.Linear):
        def forward(self, values): return super().forward(values).sum()

    workload = advisor.Workload(
        model=lambda: Total(4, 2), dataset=lambda: [torch.ones(4)] * 40, batch_size=1,
    )
"""
STREAM = """
    import torch, advisor

    class Items(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(torch.ones(40, 4))

    workload = advisor.Workload(model=lambda: torch.nn.Linear(4, 2), dataset=Items, batch_size=8)
"""
SCRIPT = """
    import torch
    model = torch.nn.Linear(4, 2).eval()
    for number in range(2000):
        with torch.no_grad():
            model(torch.full((1, 4), float(number % 3)))
"""
BATCHES = """
    import torch
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2).eval()
    images = torch.randn(60, 4)
    while True:
        order = torch.randperm(60, generator=torch.Generator().manual_seed(torch.initial_seed() + 1))
        for chosen in order.split(8):
            with torch.no_grad():
                ANSWER
"""
ITSELF = """
    import torch
    torch.manual_seed(1)
    model = torch.nn.GRU(4, 4).eval()
    words, state = torch.randn(1, 1, 4), torch.zeros(1, 1, 4)
    with torch.no_grad():
        for _ in range(4000):
            answer, state = model(words, state)
            words.copy_(torch.bernoulli(answer.abs().clamp(0, 1)))
"""
TRAINING = """
    import torch
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(50):
        model(torch.ones(1, 4)).sum().backward()
        optimizer.step()
"""


@pytest.fixture
def launched(tmp_path: Path) -> Iterator[Launch]:
    def launch(kind: str, text: str, present: Config | None = None, **config: int | str) -> Running:
        file = tmp_path / f"{kind}.py"
        file.write_text(textwrap.dedent(text))
        target = Target(kind, str(file), (), str(tmp_path))
        launcher = Launcher(
            target, tmp_path / f"trials-{len(launchers)}", unit=Unit.REQUEST, between=present is not None
        )
        launcher.__enter__()
        launchers.append(launcher)
        return launcher.start(0, config, present or {})

    launchers: list[Launcher] = []
    yield launch
    for launcher in launchers:
        launcher.__exit__(None, None, None)


def outputs(session: Running, folder: Path, part: Part, most: int = 50) -> tuple[OutputsTaken, KeptOutputs]:
    command = TakeOutputs(str(folder / f"{part}.pt"), part, most, 20.0)
    told = session.ask(command, OutputsTaken, 60.0)
    return told, KeptOutputs.read(Path(told.path))


def test_samples_of_each_purpose_are_answered_apart_from_requests(launched: Launch, tmp_path: Path) -> None:
    session = launched("workload", WORKLOAD)
    session.first_step()
    before = session.slot(5, drop=1)
    told = {part: outputs(session, tmp_path, part) for part in ("calibration", "selection", "confirmation")}
    assert before.work == session.slot(5, drop=0).work == 1.0
    keys = [key for _, kept in told.values() for key in kept.keys]
    assert sorted(map(int, keys)) == list(range(40))
    assert [(said.count, said.scored) for said, _ in told.values()] == [(4, True), (11, True), (25, True)]
    kept = told["confirmation"][1]
    assert tuple(kept.outputs[0].shape) == (1, 2) and set(kept.scores) <= {0.0, 1.0}
    run = session.facts().profile.run
    assert run is not None and run.serves
    assert session.stop().steps >= 12  # nothing that was taken counts


def test_a_dataset_of_inputs_alone_gives_them_to_the_model(launched: Launch, tmp_path: Path) -> None:
    session = launched("workload", ALONE)
    session.first_step()
    said, kept = outputs(session, tmp_path, "confirmation")
    assert (said.count, len(set(kept.asked))) == (25, 25) and tuple(kept.outputs[0].shape) == (1, 2)


def test_requests_of_a_script_are_told_apart_by_their_inputs(launched: Launch, tmp_path: Path) -> None:
    session = launched("script", SCRIPT)
    session.first_step()
    told, kept = outputs(session, tmp_path, "selection", 6)
    assert (told.count, told.available, told.scored) == (6, None, False)
    assert len({key.partition("-")[0] for key in kept.keys}) == 3
    assert kept.outputs[0].equal(kept.outputs[3]) and not kept.outputs[0].equal(kept.outputs[1])


def test_a_batch_of_a_script_is_as_many_samples(launched: Launch, tmp_path: Path) -> None:
    kept = []
    for known in (None, True):
        session = launched("script", BATCHES.replace("ANSWER", "model(images[chosen])"))
        session.first_step()
        command = TakeOutputs(str(tmp_path / "outputs.pt"), "selection", 100, 20.0, apart=known)
        told = session.ask(command, OutputsTaken, 60.0)
        assert told.apart and told.count == 100 and session.slot(5, drop=0).work > 5
        kept.append(KeptOutputs.read(tmp_path / "outputs.pt"))
    assert kept[0].keys == kept[1].keys and kept[0].asked[0] == kept[0].keys[0].partition("-")[0]
    assert kept[0].outputs[0].shape == (1, 2)


def test_a_batch_of_which_samples_need_each_other_is_one_sample(launched: Launch, tmp_path: Path) -> None:
    gru = BATCHES.replace("torch.nn.Linear(4, 2)", "torch.nn.GRU(4, 2)")
    session = launched("script", gru.replace("ANSWER", "model(images[chosen])"))
    session.first_step()
    told, kept = outputs(session, tmp_path, "selection", 20)
    assert (told.apart, told.count) == (False, 20) and len(kept.outputs[0][0]) in (4, 8)


def test_a_script_that_ends_leaves_what_it_was_asked_and_answered(launched: Launch, tmp_path: Path) -> None:
    first, second = (launched("script", ITSELF.replace("4000", "30")) for _ in range(2))
    first.first_step()
    told, kept = outputs(first, tmp_path, "selection", 4000)
    assert told.count == len(kept.keys) == 29
    second.first_step()
    asked = TakeInputs(str(tmp_path / "inputs.pt"), 4000, 20.0)
    assert second.ask(asked, InputsTaken, 60.0).count == 29


def test_another_process_is_asked_what_one_was_asked(launched: Launch, tmp_path: Path) -> None:
    asked = tmp_path / "inputs.pt"
    first = launched("script", ITSELF)
    first.first_step()
    assert first.ask(TakeInputs(str(asked), 20, 20.0), InputsTaken, 60.0).count == 20
    first.slot(7, drop=0)
    answers = []
    second = launched("script", ITSELF, mkldnn="off")
    second.first_step()
    for session in (first, second):
        for number in range(2):
            command = TakeOutputs(str(tmp_path / f"{number}.pt"), "confirmation", 20, 20.0, inputs=str(asked))
            assert session.ask(command, OutputsTaken, 60.0).count == 20
            answers.append(KeptOutputs.read(tmp_path / f"{number}.pt"))
        assert session.slot(5, drop=0).work == 1.0
    assert [kept.keys for kept in answers] == [[str(place) for place in range(20)]] * 4
    for place in range(20):
        alike = [kept.outputs[place][0] for kept in answers]
        assert alike[0].equal(alike[1]) and alike[0].allclose(alike[2], atol=1e-5)
    assert not answers[0].outputs[0][0].equal(answers[0].outputs[1][0])


def test_a_script_that_trains_is_refused(launched: Launch) -> None:
    session = launched("script", TRAINING)
    session.first_step()  # a forward, which could be a request
    with pytest.raises(TrialFailed, match="takes optimizer steps"):
        session.slot(5, drop=0)


def test_outputs_are_kept_in_plain_containers_and_named_by_content() -> None:
    import torch
    from transformers.modeling_outputs import BaseModelOutput

    tensor = torch.arange(6.0).reshape(2, 3)
    found = plain((BaseModelOutput(last_hidden_state=tensor), 3, "text", object()))
    assert found[0]["last_hidden_state"].equal(tensor) and found[1:] == [3, "text", {"object": None}]
    assert digest(tensor) == digest(tensor.clone()) != digest(tensor.reshape(3, 2))
    assert digest(tensor.bfloat16()) != digest(tensor)


def test_samples_of_a_request_are_as_many_as_asked_and_judged_one_by_one(
    launched: Launch, tmp_path: Path
) -> None:
    session = launched(
        "workload", WORKLOAD.replace("    metric=", "    batch_size=8, metric="), {"serving_batch": 8}
    )
    session.first_step()
    assert session.slot(3, drop=1).work == 8
    run = session.facts().profile.run
    assert run is not None and (run.requests_batch, run.requests_padding) == (8, 0)
    own = outputs(session, tmp_path, "confirmation")[1]
    assert session.slot(3, drop=1, config={"serving_batch": 2}).work == 2
    assert session.last.applied == ("serving_batch",)
    said, other = outputs(session, tmp_path, "confirmation")
    assert (said.count, said.scored, len(other.scores)) == (25, True, 25) and own.keys == other.keys
    assert tuple(other.outputs[0].shape) == (1, 2)
    assert all(one.allclose(two) for one, two in zip(own.outputs, other.outputs, strict=True))


def test_a_model_that_answers_all_samples_at_once_is_served_as_it_is(launched: Launch) -> None:
    session = launched("workload", TOTAL, {"serving_batch": 1}, serving_batch=4)
    session.first_step()
    session.slot(2, drop=0)
    assert "no first dimension" in session.last.refused["serving_batch"]


def test_padding_that_sorting_leaves_out_is_told(launched: Launch) -> None:
    session = launched("workload", UNLIKE, {})
    session.first_step()
    run = session.facts().profile.run
    assert run is not None and run.requests_batch == 4 and (run.requests_padding or 0) > 0.2


def test_sorted_requests_are_shorter_and_answer_the_same(launched: Launch, tmp_path: Path) -> None:
    session = launched("workload", UNLIKE, {"length_bucketing": 1})
    session.first_step()
    own = outputs(session, tmp_path, "confirmation")[1]
    session.slot(3, drop=1, config={"length_bucketing": 8})
    assert session.last.applied == ("length_bucketing",)
    other = outputs(session, tmp_path, "confirmation")[1]
    assert sorted(own.keys) == sorted(other.keys) and own.keys != other.keys
    places = {key: place for place, key in enumerate(other.keys)}
    answers = [other.outputs[places[key]] for key in own.keys]
    assert len({len(answer[0]) for answer in answers}) == 8  # what was padded is left out
    assert all(one.allclose(two) for one, two in zip(own.outputs, answers, strict=True))


@pytest.mark.parametrize("made", ["Sized", "lambda: (torch.ones(4) for _ in range(9))"])
def test_a_stream_with_a_length_and_a_generator_are_begun_again(
    made: str, launched: Launch, tmp_path: Path
) -> None:
    sized = STREAM.replace("Items(", "Sized(").replace(
        "        def __iter__", "        def __len__(self): return 40\n        def __iter__"
    )
    session = launched("workload", sized.replace("dataset=Items, batch_size=8", f"dataset={made}"), {})
    session.first_step()
    assert len(session.slot(50, drop=0).step_s) == 50  # of fewer samples than these take
    told, _ = outputs(session, tmp_path, "confirmation")
    assert (told.count, told.available) == (0, 0)


def test_samples_of_a_stream_come_in_its_order_and_are_not_put_together_anew(launched: Launch) -> None:
    session = launched("workload", STREAM, {})
    session.first_step()
    assert session.slot(7, drop=0).work == 8
    run = session.facts().profile.run
    assert run is not None and run.requests_batch is None
