"""Databases of older schemas are brought up to date whole, or left as they were."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from postgresql import MISSING, NOT_INSTALLED, a_server
from result_builder import a_result
from warm import Warm

from advisor.base.errors import EnvironmentProblem
from advisor.storage import migrations, opening
from advisor.storage.migrations import PLACE_TABLE
from advisor.storage.opening import open_database
from advisor.storage.storage_url import StorageUrl, parse_storage
from advisor.storage.store import Store
from advisor.storage.tables import metadata

FIRST = Path(__file__).parents[1] / "stored" / "first_schema.sql"

STEP = '''"""Rebuilds a table that others refer to."""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "{number:04}", "{before:04}"


def upgrade() -> None:
    with op.batch_alter_table("advisor_studies") as table:
        table.add_column(sa.Column("note", sa.Text, nullable=False, server_default="none"))
        table.alter_column("status", type_=sa.String(30))
    {more}
'''


def of_first_schema(file: Path) -> Path:
    """A database with a study, as the first version of advisor left it."""
    connection = sqlite3.connect(file)
    connection.executescript(FIRST.read_text())
    connection.execute("PRAGMA journal_mode=WAL")
    connection.close()
    file.chmod(0o600)
    return file


def rows(file: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table."""
    connection = sqlite3.connect(file)
    names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    found = {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in names}
    connection.close()
    return found


def silent(text: str) -> None:
    raise AssertionError(text)


def opened(url: StorageUrl) -> Store:
    return Store.open(url, create=False, warn=silent)


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StorageUrl:
    monkeypatch.chdir(tmp_path)
    return parse_storage("sqlite:///x.db")


@pytest.fixture
def next_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """One step more than there is, as a later version of advisor brings it; it may be overwritten."""
    folder = tmp_path / "later"
    shutil.copytree(migrations.FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    number = migrations.newest() + 1
    step = folder / "versions" / f"{number:04}_next.py"
    step.write_text(STEP.format(number=number, before=number - 1, more=""))
    monkeypatch.setattr(migrations, "FOLDER", folder)
    migrations.newest.cache_clear()
    yield step
    monkeypatch.undo()
    migrations.newest.cache_clear()


def test_the_steps_end_at_the_tables_that_the_program_reads_and_writes(url: StorageUrl) -> None:
    database = open_database(url, create=True, warn=silent)
    with database.reading() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": PLACE_TABLE})
        different = compare_metadata(context, metadata)
    database.close()
    assert different == []


def test_steps_are_numbered_without_a_gap() -> None:
    names = [file.name for file in (migrations.FOLDER / "versions").glob("[0-9]*.py")]
    assert sorted(int(name[:4]) for name in names) == list(range(1, migrations.newest() + 1))


def test_a_database_of_the_first_version_is_read_whole_and_continued(url: StorageUrl) -> None:
    file = of_first_schema(Path("x.db"))
    before = rows(file)
    with opened(url) as store:
        assert [(one.name, one.trials, one.verdict) for one in store.studies()] == [("train", 2, "change")]
        assert [trial.config for trial in store.trials("train")] == [{"num_workers": 0}, {"num_workers": 2}]
        assert [one.data for one in store.comparisons("train")] == [{"ratios": [1.3, 1.2]}] * 2
        assert store.result("train") == a_result()
        store.claim("train")
        assert [trial.number for trial in store.reap("train")] == [3]
        assert [trial.value for trial in store.optuna_study("train", None).trials] == [0.0, 0.3]
    after = rows(file)
    kept = ("advisor_comparisons", "advisor_machines", "advisor_profiles", "advisor_results", "trial_values")
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    assert max(number for number, _ in after["advisor_version"]) == migrations.newest()


def test_a_step_may_rebuild_a_table_that_others_refer_to(url: StorageUrl, next_step: Path) -> None:
    file = of_first_schema(Path("x.db"))
    before = rows(file)
    opened(url).close()
    after = rows(file)
    number = migrations.newest()
    assert [row[-1] for row in after["advisor_studies"]] == ["none"]
    assert after[PLACE_TABLE] == [(f"{number:04}",)]
    assert sorted(row[0] for row in after["advisor_version"]) == [1, number]
    assert {name: after[name] for name in ("advisor_trials", "trials")} == {
        name: before[name] for name in ("advisor_trials", "trials")
    }
    with opened(url) as store:
        store.mark_status("train", "complete")


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ("raise ZeroDivisionError", ZeroDivisionError),
        ("op.execute(\"UPDATE advisor_trials SET study = 'nobody'\")", EnvironmentProblem),
        ('op.execute("UPDATE no_such_table SET x = 1")', EnvironmentProblem),
    ],
    ids=["raises", "loses what rows refer to", "wrong"],
)
def test_a_step_that_fails_leaves_the_database_as_it_was(
    url: StorageUrl, next_step: Path, more: str, kind: type[Exception]
) -> None:
    file = of_first_schema(Path("x.db"))
    before = rows(file)
    number = migrations.newest()
    next_step.write_text(STEP.format(number=number, before=number - 1, more=more))
    with pytest.raises(kind):
        opened(url)
    assert rows(file) == before


def test_a_program_refuses_what_a_later_one_brought_up_to_date(
    url: StorageUrl, next_step: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = of_first_schema(Path("x.db"))
    monkeypatch.setattr(opening, "_this_version", lambda: "9.8.7")
    opened(url).close()
    content = file.read_bytes()
    program = (
        "from advisor.cli import main\nimport sys\n"
        "sys.exit(main(['studies', '--storage', 'sqlite:///x.db', '--format', 'json']))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.returncode == 5
    assert "x.db was made by advisor 9.8.7, this is 0.1.0; left untouched" in ran.stdout
    assert file.read_bytes() == content


def test_many_processes_bring_one_database_up_to_date_at_once(
    url: StorageUrl, next_step: Path, light: Warm
) -> None:
    file = of_first_schema(Path("x.db"))
    program = (
        "import sys\nfrom pathlib import Path\nfrom advisor.storage import migrations\n"
        "from advisor.storage.opening import open_database\n"
        "from advisor.storage.storage_url import parse_storage\n"
        "migrations.FOLDER = Path(sys.argv[1])\nsys.stdin.read()\n"
        "open_database(parse_storage('sqlite:///x.db'), create=False, warn=print).close()\n"
    )
    reads, writes = os.pipe()
    many = [light.start("-c", program, migrations.FOLDER, stdin=reads) for _ in range(6)]
    os.close(reads)
    os.close(writes)
    said = [process.communicate(timeout=120)[0] for process in many]
    assert [process.returncode for process in many] == [0] * 6, "".join(said)
    assert sorted(row[0] for row in rows(file)["advisor_version"]) == [1, migrations.newest()]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_older_database_that_cannot_be_written_is_to_be_copied(url: StorageUrl, next_step: Path) -> None:
    of_first_schema(Path("x.db")).chmod(0o400)
    with pytest.raises(EnvironmentProblem, match="made by an older advisor and must be brought up to date"):
        opened(url)


def test_tables_of_ours_without_a_version_are_damaged(url: StorageUrl) -> None:
    file = of_first_schema(Path("x.db"))
    with sqlite3.connect(file) as connection:
        connection.execute("DELETE FROM advisor_version")
    connection.close()
    with pytest.raises(EnvironmentProblem, match=r"x\.db is damaged; left untouched"):
        opened(url)


@pytest.mark.skipif(bool(MISSING), reason=NOT_INSTALLED)
def test_steps_work_on_a_server_too() -> None:
    with a_server() as server:
        url = parse_storage(server.get_uri(), from_environment=True)
        database = open_database(url, create=True, warn=silent)
        with database.writing() as connection:  # what the first version left has no place of Alembic
            metadata.drop_all(connection)
            connection.execute(sa.text(f"DROP TABLE {PLACE_TABLE}"))
            migrations.upgrade(connection, None, to=1)
            connection.execute(sa.text(f"DROP TABLE {PLACE_TABLE}"))
            connection.execute(sa.text("INSERT INTO advisor_version VALUES (1, '0.1.0')"))
        database.close()
        with opened(url) as store:
            store.create_study("train", {"target": "train.py"})
            assert store.names() == ["train"]
