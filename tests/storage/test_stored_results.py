"""A result is kept while its study runs, without the trials that have a table of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from result_builder import a_result

from advisor.result.document import Trial
from advisor.storage.storage_url import DEFAULT_STORAGE, parse_storage
from advisor.storage.store import Store


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.chdir(tmp_path)
    with Store.open(parse_storage(DEFAULT_STORAGE), create=True, warn=pytest.fail) as store:
        store.create_study("train", {"target": "train.py"})
        yield store


def test_a_result_in_progress_is_kept_without_its_trials_and_read_with_those_that_ended(store: Store) -> None:
    trials = [
        Trial(number=number, config={"x": number}, stage="search", state="complete") for number in (0, 1)
    ]
    found = a_result(trials=trials)
    for trial in trials:
        store.record("train", trial)
    store.save_result("train", found, finished=False)
    assert store.require_result("train") == found
    store.begin("train", 2, {"x": 2})
    assert [trial.number for trial in store.require_result("train").trials] == [0, 1]


def test_what_is_written_of_a_result_in_progress_does_not_grow_with_its_trials(store: Store) -> None:
    sizes = []
    for count in (1, 50):
        trials = [Trial(number=number, config={"x": number}, stage="search", state="complete")
                  for number in range(count)]  # fmt: skip
        store.save_result("train", a_result(trials=trials), finished=False)
        with store._database.reading() as connection:
            sizes.append(len(connection.exec_driver_sql("SELECT data FROM advisor_results").scalar_one()))
    assert sizes[0] == sizes[1]
