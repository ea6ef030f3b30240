"""Studies taken from one database to another arrive whole, or not at all, and take no secret along."""

import contextlib
import io
import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from result_builder import a_ratio, a_result, a_trial
from test_migrations import of_first_schema

from advisor.errors import EnvironmentProblem, UsageError
from advisor.opening import open_database
from advisor.redaction import redacted, redacted_text
from advisor.report import render_markdown, render_text
from advisor.storage_url import parse_storage
from advisor.store import Store
from advisor.study_export import export
from advisor.study_import import read_lines, renamed, store
from advisor.study_lines import EXPORTED
from advisor.tables import metadata


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    of_first_schema(tmp_path / "x.db")
    return tmp_path


def exported(address: str = "sqlite:///x.db", *names: str) -> list[str]:
    url = parse_storage(address, from_environment=True)
    with contextlib.closing(open_database(url, create=False, warn=print)) as database:
        return list(export(database, names))


def imported(lines: list[str], address: str, name: str | None = None) -> None:
    found = read_lines(io.BytesIO("".join(lines).encode()), "e.jsonl")
    if name is not None:
        found = renamed(found, name)
    url = parse_storage(address, from_environment=True)
    with contextlib.closing(open_database(url, create=True, warn=print)) as database:
        store(database, found)


def test_a_study_is_the_same_in_another_file_and_on_a_server(server: str) -> None:
    lines = exported()
    imported(lines, server)
    imported(exported(server), "sqlite:///back.db")
    assert exported(server) == lines
    assert exported("sqlite:///back.db") == lines
    with Store.open(parse_storage(server, from_environment=True), create=False, warn=print) as there:
        assert there.result("train") == a_result()
        assert [trial.config["num_workers"] for trial in there.trials("train")] == [0, 2]
        assert [one.trial for one in there.comparisons("train")] == [1, 2]
        there.claim("train")
        assert [trial.number for trial in there.reap("train")] == [3]
        study = there.optuna_study("train", None)
        assert [trial.value for trial in study.trials] == [0.0, 0.3]
        assert study.ask().number == 2


def test_every_table_of_a_study_is_exported() -> None:
    of_a_study = {table.name for table in metadata.sorted_tables if "study" in table.columns}
    assert of_a_study <= {table.name for table in EXPORTED}


def test_groups_of_workers_and_their_optuna_studies_go_along() -> None:
    import optuna

    from advisor.lease_tables import groups

    url = parse_storage("sqlite:///x.db")
    optuna.create_study(study_name="train@f00", storage="sqlite:///x.db", direction="minimize")
    optuna.create_study(study_name="train-2", storage="sqlite:///x.db")
    with contextlib.closing(open_database(url, create=False, warn=print)) as database:
        row = {"study": "train", "fingerprint": "f00", "machine": "a machine", "baseline": {"step_ms": 1.0}}
        with database.writing() as connection:
            connection.execute(groups.insert().values(row))
    imported(exported(), "sqlite:///y.db", "other")
    assert sorted(optuna.get_all_study_names("sqlite:///y.db")) == ["other", "other@f00"]
    assert any('"table":"groups"' in line for line in exported("sqlite:///y.db"))


def test_a_report_of_two_groups_is_the_same_where_the_study_is_read_again() -> None:
    from advisor.lease_tables import groups, leases

    baseline = a_result().baseline.model_dump(mode="json", by_alias=True)
    with (
        contextlib.closing(
            open_database(parse_storage("sqlite:///x.db"), create=False, warn=print)
        ) as database,
        database.writing() as connection,
    ):
        for number, (print_, best) in enumerate([("f00", 1.5), ("f01", 2.5)], start=1):
            row: dict[str, Any] = {"study": "train", "fingerprint": print_}
            connection.execute(groups.insert().values(**row, machine=f"machine {number}", baseline=baseline))
            row |= {"attempt": 1, "fence": 1, "worker": "w", "told": True, "config": {"num_workers": 1}}
            trial = a_trial(1, a_ratio(best, best - 0.1, best + 0.1)).model_dump(mode="json", by_alias=True)
            connection.execute(
                leases.insert().values(**row, number=1, key="a", state="complete", data=trial, value=best)
            )
            connection.execute(leases.insert().values(**row, number=2, key="b", state="running", expires=9.0))
    imported(exported(), "sqlite:///y.db")
    here, there = reports("x.db"), reports("y.db")
    assert here == there
    assert all(text in here for text in ("machine 1", "machine 2", "1.50", "2.50"))


def reports(file: str) -> str:
    """What ``advisor report`` says of the study as text and as Markdown."""
    with Store.open(parse_storage(f"sqlite:///{file}"), create=False, warn=print) as kept:
        result = kept.require_result("train")
        return render_text(result, 300) + render_markdown(result)


def test_a_running_study_and_its_tuner_are_not_taken_along() -> None:
    with Store.open(parse_storage("sqlite:///x.db"), create=False, warn=print) as running:
        running.mark_status("train", "running")
        running.claim("train")
        row = json.loads(exported()[1])["row"]
    assert row["status"] == "interrupted"
    assert "worker" not in row


def test_a_name_that_is_there_is_refused_and_may_be_changed() -> None:
    lines = exported()
    with pytest.raises(UsageError, match="there is a study 'train' already") as refused:
        imported(lines, "sqlite:///x.db")
    assert "--study NAME" in (refused.value.hint or "")
    imported(lines, "sqlite:///x.db", "again")
    assert exported("sqlite:///x.db", "again")[1:] == [
        line.replace('"study":"train"', '"study":"again"', 1).replace('"name":"train"', '"name":"again"', 1)
        for line in lines[1:]
    ]
    assert len(exported()) == 2 * len(lines) - 1


def test_a_study_of_optuna_that_is_not_ours_is_not_replaced() -> None:
    import optuna

    lines = exported()
    optuna.create_study(study_name="train", storage="sqlite:///y.db").enqueue_trial({})
    Path("y.db").chmod(0o600)
    with pytest.raises(UsageError, match="Optuna has a study 'train' in this database already"):
        imported(lines, "sqlite:///y.db")
    assert len(optuna.load_study(study_name="train", storage="sqlite:///y.db").trials) == 1


@pytest.mark.parametrize("point", ["import.before", "import.after"])
def test_an_import_that_is_killed_can_be_repeated_or_was_whole(here: Path, point: str) -> None:
    (here / "e.jsonl").write_text("".join(exported()))
    program = (
        "import os, signal\nfrom advisor import fault_points\nfrom advisor.cli import main\n"
        f"fault_points.install(lambda name: os.kill(os.getpid(), 9) if name == {point!r} else None)\n"
        "main(['studies', 'import', 'e.jsonl', '--storage', 'sqlite:///y.db'])\n"
    )
    environment = {**os.environ, "ADVISOR_TEST_FAULT": "1"}
    ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True)
    assert ran.returncode == -9, ran.stderr
    if point == "import.before":
        imported(exported(), "sqlite:///y.db")
    assert exported("sqlite:///y.db") == exported()


def test_what_is_exported_holds_no_secret_and_no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/srv/people/ada")
    found: dict[str, Any] = redacted(
        {
            "args": ["--api-key", "s3cret", "--lr", "0.1", "--token=s3cret", "--token-dim", "64"],
            "data": "postgresql://ada:s3cret@db/lab?password=s3cret",
            "password": "s3cret",
            "log": "/srv/people/ada/p/stderr.log",
            "message": "no file '/home/bob/x' and HF_TOKEN=s3cret",
            "files": {"tokens.py": "sha256:12", "/srv/people/adalbert/x": 1},
            "tokens_per_s": 12.5,
        }
    )
    text = json.dumps(found)
    assert "s3cret" not in text
    assert "/home/bob" not in text
    assert "/srv/people/ada/" not in text
    assert found["args"] == ["--api-key", "***", "--lr", "0.1", "--token=***", "--token-dim", "64"]
    assert found["log"] == "~/p/stderr.log"
    assert found["files"] == {"tokens.py": "sha256:12", "/srv/people/adalbert/x": 1}
    assert (found["tokens_per_s"], redacted(found)) == (12.5, found)
    assert redacted_text("--tokenizer gpt2, 3 tokens: fine") == "--tokenizer gpt2, 3 tokens: ***"


def test_secrets_of_a_stored_study_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/srv/people/ada")
    with Store.open(parse_storage("sqlite:///x.db"), create=False, warn=print) as known:
        contract = {"target": "/srv/people/ada/train.py", "args": ["--password", "s3cret"]}
        known.create_study("private", contract)
        known.save_comparison("private", 0, "screen", {"url": "https://u:s3cret@h/x?token=s3cret"})
    text = "".join(exported("sqlite:///x.db", "private"))
    assert "s3cret" not in text
    assert "/srv/people" not in text


def changed(line: int, **row: Any) -> list[str]:
    """The export with other values in the row of a line (counted from 1)."""
    lines = exported()
    document = json.loads(lines[line - 1])
    document["row"] |= row
    lines[line - 1] = json.dumps(document) + "\n"
    return lines


TRIAL, RESULT = 5, 10


@pytest.mark.parametrize(
    ("change", "texts"),
    [
        (lambda: exported()[:-1], ("the file ends within study 'train'",)),
        (lambda: [line for line in exported() if "comparisons" not in line], ("ends after", "e.jsonl:12")),
        (lambda: [*exported(), "{\n"], ("not JSON", "e.jsonl:15")),
        (lambda: [*exported(), "[" * 100_000 + "\n"], ("nested too deeply", "e.jsonl:15")),
        (lambda: [*exported(), '{"study": "x", "end": NaN}\n'], ("NaN is no JSON", "e.jsonl:15")),
        (lambda: [*exported(), '{"study": "../x", "end": 0}\n'], ("use letters, digits", "e.jsonl:15")),
        (lambda: [*exported(), '{"study": "x", "table": "trials; DROP"}\n'], ("there is no table",)),
        (lambda: [*exported(), exported()[2]], ("study 'train' has ended already", "e.jsonl:15")),
        (lambda: changed(TRIAL, evil=1), ("there is no column 'evil'", "e.jsonl:5")),
        (lambda: changed(TRIAL, key=None), ("key is missing",)),
        (lambda: changed(TRIAL, number=2**31), ("number cannot be 2147483648",)),
        (lambda: changed(TRIAL, number=7), ("number 7 holds trial 1",)),
        (lambda: changed(TRIAL, finished=1), ("finished cannot be 1",)),
        (lambda: changed(TRIAL, key="a\0b"), ("key cannot be",)),
        (lambda: changed(TRIAL, data={"number": 1}), ("config: Field required",)),
        (lambda: changed(RESULT, verdict="keep"), ("the verdict is change",)),
        (lambda: changed(RESULT, data={}), ("nothing is imported",)),
        (lambda: changed(2, status="running"), ("status cannot be 'running'",)),
        (lambda: changed(2, created="x"), ("nothing is imported",)),
        (lambda: [*exported()[:3], exported()[2], *exported()[3:]], ("machines has the row", "e.jsonl:4")),
        (lambda: [line.replace("COMPLETE", "DONE") for line in exported()], ("no trial of Optuna",)),
        (lambda: [line.replace('"values":[0.3]', '"values":["x"]') for line in exported()], ("e.jsonl:13",)),
        (lambda: [line.replace('"number":1,"state"', '"number":5,"state"') for line in exported()],
         ("trial 5 of Optuna is out of order", "e.jsonl:13")),
        (lambda: exported()[1:], ("e.jsonl is not an export of advisor",)),
        (lambda: ['{"advisor_export": 2, "advisor": "3.1"}\n'], ("made by advisor 3.1", "reads version 1")),
        (lambda: [], ("e.jsonl is empty",)),
        (lambda: ["\udcff".encode("utf-8", "surrogatepass").decode("latin-1")], ("not an export",)),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_file_is_named_by_line_and_nothing_is_stored(
    change: Any, texts: tuple[str, ...]
) -> None:
    with pytest.raises(UsageError) as refused:
        imported(change(), "sqlite:///y.db")
    for text in texts:
        assert text in str(refused.value)
    assert not Path("y.db").exists()


def test_all_wrong_lines_are_told_at_once() -> None:
    with pytest.raises(UsageError) as refused:
        imported([*exported(), *["{\n"] * 20], "sqlite:///y.db")
    assert "20 lines are wrong; nothing is imported" in refused.value.message
    assert "  line 15: " in refused.value.message
    assert "  and 10 more" in refused.value.message


def test_a_file_that_is_too_large_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    from advisor import study_import

    monkeypatch.setattr(study_import, "MAX_BYTES", 1000)
    with pytest.raises(UsageError, match=r"e\.jsonl is larger than any export"):
        imported(exported(), "sqlite:///y.db")


def test_the_command_writes_lines_and_reads_them_from_a_pipe(here: Path) -> None:
    run = [sys.executable, "-m", "advisor", "studies"]
    ran = subprocess.run(
        [*run, "export", "train", "--storage", "sqlite:///x.db"], capture_output=True, text=True
    )
    assert (ran.returncode, ran.stderr, ran.stdout) == (0, "", "".join(exported()))
    again = subprocess.run(
        [*run, "import", "-", "--storage", "sqlite:///y.db"], input=ran.stdout, capture_output=True, text=True
    )
    assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout == "Imported study 'train': 2 trials\n"
    assert exported("sqlite:///y.db") == exported()
    assert (here / "y.db").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("export", "nosuch"), 2, "no study 'nosuch'"),
        (("import",), 2, "Missing argument 'FILE'"),
        (("import", "nosuch.jsonl"), 2, "cannot read nosuch.jsonl"),
        (("import", "."), 2, "cannot read ."),
        (("import", "x.db"), 2, "x.db is not an export of advisor"),
        (("export", "--study", "x"), 2, "--study belongs to `advisor studies import`"),
        (("remove",), 2, "got an unexpected extra argument (remove)"),
    ],
)
def test_a_command_that_cannot_be_meant_is_refused(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: int, text: str
) -> None:
    from advisor.cli import main

    assert main(["studies", *words, "--storage", "sqlite:///x.db"]) == code
    assert text in capsys.readouterr().err


def test_the_rows_of_a_damaged_import_are_refused_by_the_database(here: Path) -> None:
    with sqlite3.connect(here / "x.db") as connection:
        connection.execute(
            "CREATE TRIGGER full BEFORE INSERT ON advisor_results BEGIN SELECT RAISE(FAIL, 'no'); END"
        )
    connection.close()
    lines = exported()
    with pytest.raises(EnvironmentProblem):
        imported(lines, "sqlite:///x.db", "other")
    assert exported() == lines
