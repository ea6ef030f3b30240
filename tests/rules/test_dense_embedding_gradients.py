from typing import Any

import pytest
from builders import a_machine, a_profile, a_root, a_window, an_op, an_optimizer

from advisor.advice.finding import Severity, State
from advisor.profiles.facts.observed import Location
from advisor.profiles.facts.profile import EmbeddingFacts, Profile
from advisor.rules.dense_embedding_gradients import DenseEmbeddingGradients

GRADIENT = an_op("aten::embedding_dense_backward", 1.0, phase="backward", total_ms=2.0)


def table(**facts: Any) -> EmbeddingFacts:
    return EmbeddingFacts(
        **{
            "name": "users",
            "rows": 1000,
            "columns": 64,
            "touched_share": 0.01,
            "parameter_bytes": 256_000,
            **facts,
        }
    )


def recommender(
    *tables: EmbeddingFacts, optimizer_ms: float = 4.0, total: int | None = 512_000, **facts: Any
) -> Profile:
    defaults: dict[str, Any] = {
        "roots": (a_root(embeddings=tables or (table(),), location=Location("net.py", 9)),),
        "optimizers": (an_optimizer(parameter_bytes=total),),
        "window": a_window(GRADIENT, an_op("aten::mm", 1.0, shapes=((32, 64), (64, 10)))),
    }
    return a_profile(phases_ms={"optimizer": optimizer_ms, "backward": 4.0}, **{**defaults, **facts})


def test_gradient_and_update_of_rarely_read_rows_are_the_ceiling() -> None:
    finding = DenseEmbeddingGradients().check(recommender())
    assert finding.ceiling is not None
    assert finding.ceiling.share == pytest.approx(0.4 * 0.99)  # 2 ms of gradient, half of 4 ms of update
    assert (finding.ceiling.source, finding.severity) == ("model", Severity.MEDIUM)
    assert "nn.Embedding(1000, 64, sparse=True)" in finding.advice and "changes training" in finding.advice
    assert finding.title == (
        "40 % of each step updates embedding rows, of which under 10 % were read (`users`: 1.0 %)"
    )
    assert finding.location == Location("net.py", 9)


def test_rows_are_rarely_read_up_to_a_tenth() -> None:
    assert DenseEmbeddingGradients().check(recommender(table(touched_share=0.09))).fired


def test_a_little_more_than_five_percent_is_enough() -> None:
    window = a_window(an_op("aten::embedding_dense_backward", 0.1, total_ms=0.2))
    assert DenseEmbeddingGradients().check(recommender(optimizer_ms=0.8, window=window)).fired


def test_less_than_five_percent_of_the_step_passes() -> None:
    window = a_window(an_op("aten::embedding_dense_backward", 0.1, total_ms=0.2))
    finding = DenseEmbeddingGradients().check(recommender(optimizer_ms=0.4, window=window))
    assert finding.state is State.PASSED


@pytest.mark.parametrize(
    "facts",
    [{"touched_share": 0.1}, {"sparse": True}, {"tied": True}],
    ids=["many rows read", "sparse already", "also the output layer"],
)
def test_a_table_that_would_not_gain_passes(facts: dict[str, Any]) -> None:
    assert DenseEmbeddingGradients().check(recommender(table(**facts))).state is State.PASSED


@pytest.mark.parametrize(("tied", "state"), [(None, State.PASSED), (False, State.OPPORTUNITY)])
def test_a_matmul_of_the_same_shape_means_a_shared_table_unless_known(
    tied: bool | None, state: State
) -> None:
    head = an_op("aten::mm", 2.0, shapes=((32, 64), (64, 1000)))
    profile = recommender(table(tied=tied), window=a_window(GRADIENT, head))
    assert DenseEmbeddingGradients().check(profile).state is state


def test_a_frozen_table_has_no_gradient() -> None:
    profile = recommender(window=a_window(an_op("aten::mm", 2.0)))
    assert DenseEmbeddingGradients().check(profile).state is State.PASSED


def test_only_tables_that_are_rarely_read_count() -> None:
    finding = DenseEmbeddingGradients().check(recommender(table(), table(name="days", touched_share=0.9)))
    assert finding.ceiling is not None and finding.ceiling.share == pytest.approx(0.3 * 0.99)
    assert finding.evidence["tables"] == ["users"]


def test_the_model_tells_the_bytes_where_the_optimizer_does_not() -> None:
    root = a_root(embeddings=(table(),), parameter_bytes=512_000)
    finding = DenseEmbeddingGradients().check(recommender(total=None, roots=(root,)))
    assert finding.ceiling is not None and finding.ceiling.share == pytest.approx(0.4 * 0.99)


@pytest.mark.parametrize(
    "profile",
    [
        Profile(a_machine()),
        a_profile(roots=(a_root(),)),
        a_profile(roots=(a_root(embeddings=(table(),)),)),
        recommender(window=None),
        recommender(table(touched_share=None)),
        recommender(total=None),
    ],
    ids=["nothing", "no tables", "no steps", "no window", "rows unknown", "bytes unknown"],
)
def test_without_the_facts_nothing_is_said(profile: Profile) -> None:
    assert DenseEmbeddingGradients().check(profile).state is State.NOT_APPLICABLE
