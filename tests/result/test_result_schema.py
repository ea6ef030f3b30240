"""The schema file of ``result.json`` is the one that the values of a result make."""

import json
from importlib import resources

import jsonschema
import pytest
from pydantic import ValidationError
from result_builder import a_profile_result, a_ratio, a_trial
from strategy_builder import a_result_of_strategies

from advisor.result.document import MOST_LOSSES, RankUse, ResultData, schema


def test_the_file_is_up_to_date() -> None:
    text = resources.files("advisor").joinpath("result.schema.json").read_text(encoding="utf-8")
    assert json.loads(text) == schema()


@pytest.mark.parametrize("build", [a_result_of_strategies, a_profile_result])
def test_results_fit_the_schema(build: object) -> None:
    assert callable(build)
    jsonschema.validate(json.loads(build().to_json()), schema())


def test_what_ranks_told_reads_back() -> None:
    data = json.loads(a_result_of_strategies().to_json())
    assert data["trials"][0]["ranks"] is None
    assert data["trials"][1]["ranks"] == {"count": 2, "bytes_per_step": 5347737.6, "report": {"buckets": 3}}
    assert ResultData.model_validate(data) == a_result_of_strategies()


def test_a_result_of_an_earlier_version_has_neither_ranks_nor_losses() -> None:
    data = json.loads(a_result_of_strategies().to_json())
    for trial in data["trials"]:
        del trial["ranks"], trial["losses"]
    del data["baseline"]["losses"]
    read = ResultData.model_validate(data)
    assert read.trials[1].ranks is None and read.trials[1].losses == []


def test_figures_that_json_cannot_hold_are_written_as_null() -> None:
    use = RankUse(count=2, report={"staleness": float("nan")})
    trial = a_trial(1, a_ratio(1.0, 0.9, 1.1), ranks=use)
    data = json.loads(a_result_of_strategies(trials=[trial]).to_json())
    assert data["trials"][0]["ranks"]["report"] == {"staleness": None}


def test_no_more_losses_are_kept_than_are_drawn() -> None:
    with pytest.raises(ValidationError):
        a_trial(1, losses=[1.0] * (MOST_LOSSES + 1))
