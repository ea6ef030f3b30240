"""Whatever text follows an option and whatever bytes lie in a file: an answer, and no traceback."""

import contextlib
import io
import json
import sqlite3
from pathlib import Path

import pytest
from bad_inputs import TRAINING
from command_line import go_to
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from result_builder import a_result

from advisor.cli import main

ANSWERS = (0, 2, 3, 4, 5)

often = settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "train.py").write_text(TRAINING)
    (tmp_path / "good.json").write_text(a_result().to_json())
    return go_to(tmp_path, monkeypatch, tmp_path_factory.mktemp("logs"))


def answered(*words: str) -> bool:
    """Whether a command ends with a code of ours and without a traceback; what it says is cleaned."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    said = err.getvalue()
    return code in ANSWERS and "Traceback" not in said and not {"\x1b", "\x00", "\u202e", "\r"} & set(said)


@often
@given(
    content=st.binary(max_size=80) | st.text(max_size=80).map(lambda text: text.encode("utf-8", "replace"))
)
@pytest.mark.parametrize("name", ["advisor.toml", "pyproject.toml"])
def test_any_bytes_in_a_configuration_file_are_answered(here: Path, name: str, content: bytes) -> None:
    (here / name).write_bytes(content)
    assert answered("tune", "train.py", "--dry-run")
    (here / name).unlink()


KEYS = ["trials", "budget", "knob", "fix", "storage", "study", "seed", "ranks", "format", "out", "device"]
VALUES = st.sampled_from(
    ["1", "-1", '"x"', "true", "[]", "{}", "nan", "inf", "1979-05-27", '["a", 1]', "{amp = true}",
     '""', '"\\u0000"', '"\\u001b[2J"', "99999999999999999999", "[[[[]]]]", '{"" = 1}', "{low = 1}"]
)  # fmt: skip


@often
@given(table=st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4))
def test_any_values_in_a_configuration_file_are_answered(here: Path, table: dict[str, str]) -> None:
    (here / "advisor.toml").write_text("".join(f"{key} = {value}\n" for key, value in table.items()))
    assert answered("tune", "train.py", "--dry-run")


WHOLE = a_result().to_json().encode()


REPORTED = (
    ("report", "any.json", "--format", "html"),
    ("report", "any.json", "--format", "md"),
    ("report", "any.json", "--format", "sarif"),
    ("apply", "any.json"),
    ("compare", "any.json", "good.json"),
    ("check", "train.py", "--against", "any.json", "--dry-run"),
)


@often
@given(content=st.binary(max_size=60))
def test_any_bytes_as_a_result_are_answered(here: Path, content: bytes) -> None:
    (here / "any.json").write_bytes(content)
    assert [words for words in REPORTED if not answered(*words)] == []


@often
@given(at=st.integers(0, len(WHOLE)), cut=st.integers(0, 40), put=st.binary(max_size=6))
def test_a_result_with_a_piece_of_other_bytes_is_answered(here: Path, at: int, cut: int, put: bytes) -> None:
    (here / "any.json").write_bytes(WHOLE[:at] + put + WHOLE[at + cut :])
    assert [words for words in REPORTED if not answered(*words)] == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from([1e308, -0.0, 2**70]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@often
@given(key=st.sampled_from(sorted(a_result().model_dump())), value=JSON)
def test_any_value_of_a_field_of_a_result_is_answered(here: Path, key: str, value: object) -> None:
    document = json.loads(WHOLE)
    document[key] = value
    (here / "any.json").write_text(json.dumps(document))
    assert answered("report", "any.json", "--format", "html")
    assert answered("compare", "any.json", "good.json")


@often
@given(
    scheme=st.sampled_from(["sqlite", "postgresql", "sqlite+pysqlite", "mysql", "", "file"]),
    rest=st.text(alphabet="/.:@?&=%[]#ab0 \x00\udcff", max_size=16),
)
def test_any_storage_url_is_answered(scheme: str, rest: str) -> None:
    assert answered("tune", "train.py", "--dry-run", "--storage", f"{scheme}://{rest}")


def a_database() -> bytes:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE advisor_version (schema INTEGER, advisor TEXT)")
    connection.execute("CREATE TABLE advisor_studies (name TEXT)")
    connection.commit()
    return connection.serialize()


EMPTY = a_database()


@often
@given(at=st.integers(0, len(EMPTY) - 1), content=st.binary(min_size=1, max_size=64), short=st.booleans())
def test_any_bytes_in_a_database_are_answered(here: Path, at: int, content: bytes, short: bool) -> None:
    file = here / "any.db"
    file.write_bytes(EMPTY[:at] if short else EMPTY[:at] + content + EMPTY[at + len(content) :])
    file.chmod(0o600)
    for words in (("studies",), ("report", "train", "--format", "md")):
        assert answered(*words, "--storage", "sqlite:///any.db"), words


WORDS = st.sampled_from(
    ["report", "knobs", "rules", "studies", "compare", "apply", "--", "-m", "--exec", "--format", "json",
     "--help", "--zzz", "", "train.py", "good.json", "-x", "--knob=", "=", "--dry-run", "\x1b", "--out"]
)  # fmt: skip


@often
@given(words=st.lists(WORDS, max_size=5))
def test_any_words_are_answered(words: list[str]) -> None:
    assert answered(*words)


@often
@given(command=st.sampled_from(["tune", "profile", "check"]), words=st.lists(WORDS, max_size=4))
def test_any_words_after_a_command_that_runs_are_answered(command: str, words: list[str]) -> None:
    assert answered(command, "--dry-run", *words)
