"""What may be written as a storage URL, and what is read when it may not."""

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.base.errors import AdvisorError, EnvironmentProblem, UsageError
from advisor.storage.storage_url import (
    DEFAULT_STORAGE,
    VISIBLE_PASSWORD,
    StorageUrl,
    file_system_of,
    parse_storage,
)

HAS_PSYCOPG = importlib.util.find_spec("psycopg") is not None
needs_psycopg = pytest.mark.skipif(not HAS_PSYCOPG, reason="psycopg is not installed")

MOUNTS = """\
/dev/vda / ext4 rw 0 0
server:/home /home nfs4 rw,vers=4.2 0 0
tmpfs /home/ada/ram\\040disk tmpfs rw 0 0
//server/share /mnt/share cifs rw 0 0
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dir").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("", "storage is empty", "leave it out for the default file"),
        ("  ", "storage is empty", "leave it out for the default file"),
        ("foo", "'foo' is not a storage URL", "`sqlite:///path.db` or `postgresql://USER@HOST/DB`"),
        ("foosql://x/y", "'foosql' is not supported", "sqlite, postgresql"),
        ("mysql://u:s3cret@h/d", "'mysql' is not supported", "sqlite, postgresql"),
        ("redis://localhost", "'redis' is not supported", "sqlite, postgresql"),
        ("postgresql+psycopg2://h/d", "'postgresql+psycopg2' is not supported", "sqlite, postgresql"),
        ("sqlite:///nodir/x.db", "no such directory: nodir", "`mkdir -p nodir`"),
        ("sqlite:///nodir/", "no such directory: nodir", "`mkdir -p nodir`"),
        ("sqlite:////nodir/deep/x.db", "no such directory: /nodir/deep", "`mkdir -p /nodir/deep`"),
        ("sqlite:///dir/", "dir/ is a directory", "`sqlite:///dir/studies.db`"),
        ("sqlite:///dir", "dir is a directory", "`sqlite:///dir/studies.db`"),
        ("sqlite:///x.db?plugin=x", "parameter 'plugin' is not allowed", "postgresql:// takes"),
        ("sqlite:///x.db?mode=memory&uri=true", "parameter 'mode' is not allowed", "postgresql:// takes"),
        ("postgresql://h/d?plugin=x", "parameter 'plugin' is not allowed", "sslmode"),
        ("postgresql://h/d?password=s3cret", "parameter 'password' is not allowed", "sslmode"),
        ("postgresql://h/d?host=a&host=b", "parameter 'host' is given twice", ""),
        ("postgresql://u:s3@cret@h/d", "the postgresql:// URL cannot be read", "%40"),
        ("postgresql://u:s3@cr/et@h/d", "the postgresql:// URL cannot be read", "%40"),
        ("postgresql://h:99999/d", "the port of the postgresql:// URL is not a number from 1 to 65535", ""),
        ("sqlite://x.db", "'sqlite://x.db' names a host, and SQLite has none", "sqlite:///path.db"),
        ("user:s3cret@host", "'***@host' is not a storage URL", "sqlite:///path.db"),
        ("sqlite:///a\0b", "is not a storage URL", "sqlite:///path.db"),
    ],
)
def test_what_is_no_storage_url_is_refused_with_the_next_step(text: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_storage(text)
    assert message in refused.value.message
    assert hint in (refused.value.hint or "")
    assert refused.value.exit_code == 2
    assert "s3cret" not in str(refused.value) and "cret@" not in str(refused.value)


def test_nothing_is_created_by_looking_at_a_url(here: Path) -> None:
    parse_storage(DEFAULT_STORAGE)
    parse_storage("sqlite:///new.db")
    assert [path.name for path in here.rglob("*")] == ["dir"]


def test_the_default_file_lies_in_a_folder_that_need_not_exist(here: Path) -> None:
    assert parse_storage(DEFAULT_STORAGE) == StorageUrl(
        "sqlite", shown=".advisor/studies.db", path=here / ".advisor" / "studies.db"
    )


def test_a_relative_and_an_absolute_path_are_told_apart_by_the_slashes(here: Path) -> None:
    assert parse_storage("sqlite:///x.db").path == here / "x.db"
    assert parse_storage(f"sqlite:///{here}/dir/y.db").path == here / "dir" / "y.db"


@pytest.mark.parametrize("text", ["sqlite://", "sqlite:///", "sqlite:///:memory:"])
def test_a_database_in_memory_is_taken(text: str) -> None:
    url = parse_storage(text)
    assert url.in_memory


@needs_psycopg
def test_a_server_is_read_part_by_part() -> None:
    url = parse_storage(
        "postgresql://ada:p%40ss@db.example:5433/lab?sslmode=verify-full", from_environment=True
    )
    assert url == StorageUrl(
        "postgresql",
        shown="postgresql://ada@db.example:5433/lab",
        user="ada",
        password="p@ss",
        host="db.example",
        port=5433,
        database="lab",
        query=(("sslmode", "verify-full"),),
    )


@needs_psycopg
def test_a_socket_folder_is_a_host_in_the_parameters() -> None:
    url = parse_storage("postgresql://postgres:@/postgres?host=/tmp/pg")
    assert (url.host, url.query, url.password, url.warnings) == (None, (("host", "/tmp/pg"),), None, ())


@needs_psycopg
def test_a_password_on_the_command_line_is_warned_about_and_never_shown() -> None:
    url = parse_storage("postgresql://ada:s3cret@h/lab")
    assert url.warnings == (VISIBLE_PASSWORD,)
    assert "s3cret" not in f"{url} {url!r} {url.warnings}"
    assert parse_storage("postgresql://ada:s3cret@h/lab", from_environment=True).warnings == ()


def test_without_psycopg_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found: Callable[..., object] = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "psycopg" else found(name))
    with pytest.raises(EnvironmentProblem) as refused:
        parse_storage("postgresql://ada@h/lab")
    assert (refused.value.message, refused.value.hint, refused.value.exit_code) == (
        "postgresql:// needs the extra", "`pip install '/path/to/advisor[postgres]'`", 5,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/data/x.db", "ext4"),
        ("/home/ada/x.db", "nfs4"),
        ("/home/ada/ram disk/x.db", "tmpfs"),
        ("/homes/x.db", "ext4"),
        ("/mnt/share/x.db", "cifs"),
    ],
)
def test_the_innermost_mount_tells_the_file_system(path: str, kind: str) -> None:
    assert file_system_of(Path(path), MOUNTS) == kind


def test_sqlite_on_a_network_is_refused_with_the_alternative(here: Path) -> None:
    mounts = here / "mounts"
    mounts.write_text(f"/dev/vda / ext4 rw 0 0\nserver:/x {here / 'dir'} nfs4 rw 0 0\n")
    with pytest.raises(UsageError) as refused:
        parse_storage("sqlite:///dir/x.db", mounts=mounts)
    assert refused.value.message == "SQLite serves one machine, and dir/x.db lies on a network (nfs4)"
    assert refused.value.hint == "`postgresql://USER@HOST/DB`"
    assert parse_storage("sqlite:///x.db", mounts=mounts).path == here / "x.db"


@given(st.text() | st.text().map("sqlite:///".__add__) | st.text().map("postgresql://".__add__))
def test_any_text_is_a_url_or_an_error_of_ours(text: str) -> None:
    try:
        url = parse_storage(text)
    except AdvisorError as error:
        assert error.exit_code in (2, 5) and error.message
    else:
        assert url.dialect in ("sqlite", "postgresql")


def test_reading_a_url_imports_nothing_heavy() -> None:
    program = (
        "import sys; from advisor.storage.storage_url import parse_storage; parse_storage('sqlite:///x.db');"
        "print(sorted({'torch', 'optuna', 'scipy', 'sqlalchemy'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
