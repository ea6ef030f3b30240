import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from builders import a_profile, a_root, an_optimizer
from ranks import Told, run_ranks
from sharded_training import BATCH, STEPS, a_workload, sgd
from torch import Tensor, nn
from torch.utils.data import Dataset, TensorDataset

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Refused
from advisor.tuners.strategies.tensor_parallel import TensorParallel
from advisor.workloads.workload import Workload

pytestmark = pytest.mark.slow

WIDTHS = [6, 24, 16, 16, 8, 8, 1]
SENTENCES = TensorDataset(
    torch.linspace(-2, 2, 32 * 5 * 8).sin().reshape(32, 5, 8), torch.linspace(-3, 3, 32).cos().reshape(32, 1)
)


def an_mlp() -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(WIDTHS):
        layers += [nn.Linear(inputs, outputs), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers[:-1])


class Encoder(nn.Module):
    def __init__(self, heads: int = 4, width: int = 8) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, heads, 16, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(width, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        output: Tensor = self.head(self.layers(inputs).mean(1))
        return output


def mlp() -> Workload:
    return a_workload(model=an_mlp)


def encoder(**changes: Any) -> Workload:
    # Adam would magnify the noise of gradients that are zero but for rounding, as those of keys' biases
    facts = {"model": Encoder, "dataset": lambda: SENTENCES, "batch_size": 8, "optimizer": sgd}
    return a_workload(**{**facts, **changes})


def encoder_clipped() -> Workload:
    """Updates of two micro-batches each, clipped at a norm that is always exceeded."""
    return encoder(accumulation=2, clip_norm=0.5)


def encoder_fused() -> Workload:
    return encoder(optimizer=lambda params: torch.optim.AdamW(params, lr=1e-3, eps=1e-2, fused=True))


def fused_sgd() -> Workload:
    return encoder(optimizer=lambda params: torch.optim.SGD(params, lr=0.02, fused=True))


def assert_alike(told: Sequence[Told], single: Told) -> None:
    """All workers learnt what one process did; attention has its projections apart, in the same order."""
    for each in told:
        assert each.losses == pytest.approx(single.losses, rel=1e-4)
        found = packed(each.parameters)
        assert found.keys() == single.parameters.keys()
        for name, values in single.parameters.items():
            assert found[name] == pytest.approx(values, rel=1e-4, abs=1e-5), name


def packed(parameters: dict[str, list[float]]) -> dict[str, list[float]]:
    result: dict[str, list[float]] = {}
    for name, values in parameters.items():
        path, _, kind = name.rpartition(".")
        owner, _, part = path.rpartition(".")
        if not owner.endswith("self_attn"):
            result[name] = values
        elif part == "out":
            result[f"{owner}.out_proj.{kind}"] = values
        else:
            result.setdefault(f"{owner}.in_proj_{kind}", []).extend(values)
    return result


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """What one process learns in as many steps."""
    return run_ranks("single", mlp, tmp_path_factory.mktemp("single"), workers=1, steps=STEPS)[0]


def test_every_rank_learns_what_one_process_does(tmp_path: Path, single: Told) -> None:
    assert single.losses[-1] < 0.5 * single.losses[0]
    assert_alike(run_ranks("tensor_parallel", mlp, tmp_path, steps=STEPS), single)


@pytest.mark.long
def test_heads_and_feed_forward_layers_of_an_encoder_are_divided(tmp_path: Path) -> None:
    (alone,) = run_ranks("single", encoder, tmp_path / "single", workers=1, steps=STEPS)
    told = run_ranks("tensor_parallel", encoder, tmp_path, steps=STEPS)
    assert alone.losses[-1] < alone.losses[0]
    assert_alike(told, alone)
    assert [each.report["divided_groups"] for each in told] == [4, 4]


@pytest.mark.parametrize("workload", [encoder_fused, pytest.param(encoder_clipped, marks=pytest.mark.long)])
def test_divided_and_whole_parameters_are_updated_and_clipped_together(workload: Any, tmp_path: Path) -> None:
    (alone,) = run_ranks("single", workload, tmp_path / "single", workers=1, steps=20)
    assert_alike(run_ranks("tensor_parallel", workload, tmp_path, steps=20), alone)


def three_heads() -> Workload:
    data = TensorDataset(torch.cat([SENTENCES.tensors[0]] * 2, -1)[..., :12], SENTENCES.tensors[1])
    return encoder(model=lambda: Encoder(3, 12), dataset=lambda: data)


def test_attention_whose_heads_do_not_divide_stays_whole(tmp_path: Path) -> None:
    told = run_ranks("tensor_parallel", three_heads, tmp_path, steps=2)
    assert [each.report["divided_groups"] for each in told] == [2, 2]
    assert "layers.layers.0.self_attn.in_proj_weight" in told[0].parameters


def test_every_rank_holds_its_part_of_the_divided_layers(tmp_path: Path) -> None:
    told = run_ranks("tensor_parallel", mlp, tmp_path, steps=1)
    held = 0.0
    for at, (inputs, outputs) in enumerate(pairwise(WIDTHS)):
        bias = outputs if at % 2 else outputs / 2  # that of the last layer of a pair is whole
        held += inputs * outputs / 2 + bias
    assert [each.report["parameter_bytes"] for each in told] == [4 * held] * 2


def test_what_travels_is_one_output_and_one_gradient_per_pair(tmp_path: Path) -> None:
    told = run_ranks("tensor_parallel", mlp, tmp_path, steps=3)
    outputs = WIDTHS[2] + WIDTHS[4] + WIDTHS[6]
    gradients = WIDTHS[2] + WIDTHS[4]  # nobody needs that of the data
    assert [each.report["bytes_per_step"] for each in told] == [4 * BATCH * (outputs + gradients)] * 2


def test_gradients_of_queries_keys_and_values_travel_together(tmp_path: Path) -> None:
    told = run_ranks("tensor_parallel", encoder, tmp_path, steps=1)
    activation = 4 * 8 * 5 * 8  # of a batch, between two parts of a layer
    whole = 4 * activation + 3 * activation  # four sums in forward, and in backward all but the data's
    assert [each.report["bytes_per_step"] for each in told] == [whole] * 2


class Attention(nn.Module):
    """As many people write it."""

    def __init__(self, reads_width: bool) -> None:
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(8, 8) for _ in range(3))
        self.out_proj = nn.Linear(8, 8)
        self.num_heads = 4
        self.reads_width = reads_width

    def forward(self, inputs: Tensor) -> Tensor:
        batch, length, width = inputs.shape
        size = (batch, length, self.num_heads, width // self.num_heads if self.reads_width else 2)
        layers = (self.q_proj, self.k_proj, self.v_proj)
        heads = [layer(inputs).view(size).transpose(1, 2) for layer in layers]
        mixed = nn.functional.scaled_dot_product_attention(*heads)
        output: Tensor = self.out_proj(mixed.transpose(1, 2).reshape(batch, length, -1))
        return inputs + output


def slow_sgd(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=1e-3, momentum=0.9)


def own_attention(reads_width: bool = False) -> Workload:
    layers = [Attention(reads_width), nn.Flatten(), nn.Linear(40, 1)]
    return encoder(model=lambda: nn.Sequential(*layers), optimizer=slow_sgd)


@pytest.mark.long
def test_attention_known_by_its_parts_is_divided(tmp_path: Path) -> None:
    (alone,) = run_ranks("single", own_attention, tmp_path / "single", workers=1, steps=STEPS)
    told = run_ranks("tensor_parallel", own_attention, tmp_path, steps=STEPS)
    assert_alike(told, alone)
    assert told[0].report["divided_groups"] == 1


def by_width() -> Workload:
    return own_attention(reads_width=True)


def one_layer() -> Workload:
    return a_workload(model=lambda: nn.Linear(6, 1))


def odd_width() -> Workload:
    return a_workload(model=lambda: nn.Sequential(nn.Linear(6, 7), nn.ReLU(), nn.Linear(7, 1)))


class OwnSgd(torch.optim.SGD):
    pass


def own_optimizer() -> Workload:
    return a_workload(model=an_mlp, optimizer=lambda parameters: OwnSgd(parameters, lr=0.1))


def regularised() -> Workload:
    def step(model: nn.Module, batch: Sequence[Tensor]) -> Tensor:
        loss = nn.functional.mse_loss(model(batch[0]), batch[1])
        return loss + model.get_parameter("0.weight").pow(2).sum()

    return a_workload(model=an_mlp, loss=None, step=step)


class Drifting(Dataset[tuple[Tensor, Tensor]]):
    """Differs from process to process."""

    def __len__(self) -> int:
        return BATCH

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return torch.full((6,), os.getpid() % 1000), torch.zeros(1)


def drifting() -> Workload:
    return a_workload(model=an_mlp, dataset=Drifting)


@pytest.mark.parametrize(
    ("workload", "reason"),
    [
        (one_layer, "no two linear layers"),
        (odd_width, r"a width of 7 \(2\) cannot be divided among 2 ranks"),
        (by_width, "0 does not compute the same in parts"),
        (own_optimizer, "the update of OwnSgd is not known"),
        (fused_sgd, "no fused update of SGD for DTensors"),
        (regularised, "the step uses something of the model that has been divided"),
        (drifting, "the ranks loaded different batches"),
    ],
)
def test_what_cannot_be_divided_is_refused(workload: Any, reason: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=f"Refused: .*{reason}"):
        run_ranks("tensor_parallel", workload, tmp_path, steps=1)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"amp": "fp16"}, "each rank would skip updates"),
        ({"optimizer_implementation": "fused"}, "no fused update of SGD"),
    ],
)
def test_other_changes_that_parts_do_not_stand_are_refused(
    config: Mapping[str, str], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(AssertionError, match=f"Refused: .*{reason}"):
        run_ranks("tensor_parallel", encoder, tmp_path, steps=1, config=config)


def test_one_process_divides_nothing() -> None:
    with pytest.raises(Refused, match="nobody to divide"):
        TensorParallel().wrap(an_mlp())


def test_before_training_there_is_nothing_to_report() -> None:
    assert TensorParallel().report() == {}


def test_an_ordinary_program_can_be_trained() -> None:
    TensorParallel().check(a_profile(optimizers=(an_optimizer(),), roots=(a_root(),)), 2)
    TensorParallel().check(a_profile(), 2)


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        (a_profile(roots=(a_root(parallel="DataParallel"),)), "DataParallel itself"),
        (a_profile(roots=(a_root(scripted=True),)), "scripted"),
        (a_profile(optimizers=(an_optimizer(sparse_gradients=True),)), "sparse"),
        (a_profile(optimizers=(an_optimizer("Muon"),)), "the update of Muon"),
        (a_profile(target_kind="script"), "script"),
    ],
)
def test_where_it_cannot_train_the_reason_is_said(profile: Profile, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        TensorParallel().check(profile, 2)


def test_what_the_user_writes_is_code() -> None:
    compile(TensorParallel().change().snippet, "snippet", "exec")


class Model(nn.Module):
    """A single layer of BERT or GPT-2."""

    def __init__(self, gpt: bool) -> None:
        super().__init__()
        self.body: nn.Module
        from transformers import BertConfig, BertModel, GPT2Config, GPT2Model

        if gpt:
            self.body = GPT2Model(
                GPT2Config(
                    vocab_size=20, n_positions=8, n_embd=8, n_layer=1, n_head=4, resid_pdrop=0.0,
                    embd_pdrop=0.0, attn_pdrop=0.0,
                )
            )  # fmt: skip
        else:
            self.body = BertModel(
                BertConfig(
                    vocab_size=20, hidden_size=8, num_hidden_layers=1, num_attention_heads=4,
                    intermediate_size=16, max_position_embeddings=8, hidden_dropout_prob=0.0,
                    attention_probs_dropout_prob=0.0,
                ),
                add_pooling_layer=False,
            )  # fmt: skip
        self.head = nn.Linear(8, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        output: Tensor = self.head(self.body(inputs).last_hidden_state.mean(1))
        return output


WORDS = TensorDataset(torch.arange(32 * 8).reshape(32, 8) * 7 % 20, SENTENCES.tensors[1])


def bert() -> Workload:
    return encoder(model=lambda: Model(gpt=False), dataset=lambda: WORDS)


def gpt() -> Workload:
    return encoder(model=lambda: Model(gpt=True), dataset=lambda: WORDS)


@pytest.mark.long
@pytest.mark.parametrize("workload", [bert, gpt], ids=["BERT", "GPT-2"])
def test_blocks_of_transformers_are_divided(workload: Any, tmp_path: Path) -> None:
    (alone,) = run_ranks("single", workload, tmp_path / "single", workers=1, steps=20)
    told = run_ranks("tensor_parallel", workload, tmp_path, steps=20)
    assert abs(alone.losses[16] - alone.losses[0]) > 1e-2  # of the same batch
    for each in told:
        assert each.losses == pytest.approx(alone.losses, rel=1e-4)
    assert told[0].report["divided_groups"] == 2
