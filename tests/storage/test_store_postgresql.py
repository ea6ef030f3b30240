"""The same store on a PostgreSQL server, which is started in a folder of its own."""

from contextlib import closing
from typing import Any

import pytest
from postgresql import MISSING, NOT_INSTALLED, a_database, control
from test_store import a_trial, keep, silent

from advisor.base.errors import EnvironmentProblem
from advisor.storage.database import Patience, engine_options
from advisor.storage.opening import open_database
from advisor.storage.storage_url import parse_storage
from advisor.storage.store import Store
from advisor.storage.writer import Writer

pytestmark = pytest.mark.skipif(bool(MISSING), reason=NOT_INSTALLED)


def test_studies_trials_and_optunas_tables_live_on_a_server(server: str) -> None:
    with Store.open(parse_storage(server), create=True, warn=silent) as store:
        store.create_study("train", {"target": "train.py", "odd": "\udcff\x00"})
        store.claim("train")
        with (
            Store.open(parse_storage(server), create=False, warn=silent) as other,
            pytest.raises(EnvironmentProblem, match="study 'train' is being tuned by another process"),
        ):
            other.claim("train")
        study = store.optuna_study("train", None)
        study.ask()
        keep(store, a_trial(0), asked=0, value=1.5)
        keep(store, a_trial(0, marks=["throttled"]), asked=0, value=1.5)
        store.begin("train", 1, {"num_workers": 1})
    with Store.open(parse_storage(server), create=False, warn=silent) as store:
        store.claim("train")
        assert [trial.cause for trial in store.reap("train")] == ["killed"]
        assert [trial.number for trial in store.trials("train")] == [0, 1]
        assert [(one.name, one.trials) for one in store.studies()] == [("train", 2)]
        assert [trial.value for trial in store.optuna_study("train", None).trials] == [1.5]


def test_a_database_that_does_not_exist_is_named_without_traceback(server: str) -> None:
    with pytest.raises(EnvironmentProblem) as failed:
        Store.open(parse_storage(server.replace("/postgres?", "/nosuch?")), create=True, warn=silent)
    assert (failed.value.message, failed.value.exit_code) == ("the database does not exist", 5)


def test_a_server_that_is_not_there_is_said_not_to_answer() -> None:
    url = parse_storage("postgresql://ada:s3cret@127.0.0.1:1/lab", from_environment=True)
    with pytest.raises(EnvironmentProblem) as failed:
        Store.open(url, create=True, warn=silent)
    assert failed.value.message == "no PostgreSQL server answers"
    assert "s3cret" not in str(failed.value)


def end_connections(server: str) -> None:
    """Cut all connections to the server."""
    import psycopg

    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )


def test_who_lost_its_lock_and_then_the_study_writes_no_more(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = parse_storage(a_database(server, "lost"))
    with Store.open(url, create=True, warn=silent) as store:
        store.create_study("train", {})
        store.claim("train")
        keep(store, a_trial(1))
        end_connections(server)
        keep(store, a_trial(2))
        monkeypatch.setattr(Writer, "this", lambda: Writer(1, 1.0, "another machine"))
        with Store.open(url, create=False, warn=silent) as other:
            other.claim("train")
            with pytest.raises(EnvironmentProblem, match="study 'train' is being tuned by another process"):
                keep(store, a_trial(3))
            keep(other, a_trial(3))
            store.close()
            keep(other, a_trial(4))
        assert [trial.number for trial in store.trials("train")] == [1, 2, 3, 4]


@pytest.mark.long
def test_a_server_that_restarts_is_written_to_again(own_server: Any) -> None:
    url = parse_storage(a_database(own_server.get_uri(), "restarted"))
    with Store.open(url, create=True, warn=silent) as store:
        store.create_study("train", {})
        store.claim("train")
        keep(store, a_trial(1))
        control(own_server, "restart")
        keep(store, a_trial(2))
        assert [trial.number for trial in store.trials("train")] == [1, 2]


@pytest.mark.long
def test_a_server_that_went_away_is_told(own_server: Any) -> None:
    url = parse_storage(a_database(own_server.get_uri(), "away"))
    with Store.open(url, create=True, warn=silent) as store:
        store.create_study("train", {})
        control(own_server, "stop", "-m", "immediate")
        with pytest.raises(EnvironmentProblem) as told:
            keep(store, a_trial(1))
    assert told.value.exit_code == 5
    assert told.value.message in ("no PostgreSQL server answers", "the connection to PostgreSQL was lost")


def test_libpq_and_server_are_told_deadlines_that_the_url_may_change() -> None:
    patience = Patience("db", silent)
    told = engine_options(parse_storage("postgresql://ada@h/lab"), patience)["connect_args"]
    assert (told["connect_timeout"], told["tcp_user_timeout"]) == (10, 30_000)
    assert told["options"] == "-c statement_timeout=30000"
    url = parse_storage("postgresql://ada@h/lab?connect_timeout=3")
    assert engine_options(url, patience)["connect_args"]["connect_timeout"] == "3"


def test_a_statement_that_takes_too_long_is_ended_and_told(server: str) -> None:
    from sqlalchemy import text

    url = parse_storage(a_database(server, "slow"))
    with (
        closing(open_database(url, create=True, warn=silent)) as database,
        pytest.raises(EnvironmentProblem) as told,
        database.reading() as connection,
    ):
        assert connection.execute(text("SHOW statement_timeout")).scalar() == "30s"
        connection.execute(text("SET statement_timeout = 200"))
        connection.execute(text("SELECT pg_sleep(30)"))
    assert (told.value.message, told.value.exit_code) == ("PostgreSQL did not answer in time", 5)
