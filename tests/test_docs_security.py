"""What the page on security claims about the code is looked up in the code."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from advisor.base.errors import UsageError
from advisor.cli.failures import Face, report_failure

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))
FILES = sorted(set(re.findall(r"`((?:advisor|tuners|profiles|templates)/[\w/.]+\.\w+)`", PAGE)))
EXECUTING = {"execute", "exec_driver_sql", "text", "scalar", "scalars"}


@pytest.mark.parametrize(("file", "test"), NAMED)
def test_every_test_that_the_page_names_is_there(file: str, test: str) -> None:
    tree = ast.parse((ROOT / file).read_bytes())
    assert test in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("file", FILES)
def test_every_file_that_the_page_names_is_there(file: str) -> None:
    assert (ROOT / file).is_file()


def test_every_threat_has_its_part() -> None:
    found = [int(number) for number in re.findall(r"^### T(\d+) ", PAGE, re.MULTILINE)]
    assert found == list(range(1, 19))
    assert len(NAMED) >= 15


def calls() -> Iterator[tuple[Path, ast.Call]]:
    for folder in ("advisor", "tuners", "profiles"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not path.is_relative_to(ROOT / "advisor" / "tuners"):
                yield from (
                    (path, node)
                    for node in ast.walk(ast.parse(path.read_bytes()))
                    if isinstance(node, ast.Call)
                )


def is_put_together(node: ast.expr) -> bool:
    """Whether a text has parts that are not written where it stands."""
    if isinstance(node, ast.JoinedStr):
        return any(isinstance(part, ast.FormattedValue) for part in node.values)
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Mod | ast.Add) and any(map(is_text, (node.left, node.right)))
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format"


def is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def test_no_statement_is_put_together_from_text() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for path, call in calls()
        if isinstance(call.func, ast.Attribute) and call.func.attr in EXECUTING
        and call.args and is_put_together(call.args[0])
    ]  # fmt: skip
    assert found == []


def test_a_statement_put_together_from_text_would_be_seen() -> None:
    for source in (
        'c.execute(f"select {x}")',
        'c.execute("a" + x)',
        'c.execute("%s" % x)',
        'c.text("{}".format(x))',
    ):
        (statement,) = ast.parse(source).body
        assert isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
        assert is_put_together(statement.value.args[0])


def test_nothing_of_the_package_listens_beyond_loopback_or_serves_files() -> None:
    imported = {
        name.partition(" ")[0]
        for path in (*(ROOT / "advisor").rglob("*.py"), *(ROOT / "tuners").rglob("*.py"))
        for name in re.findall(
            r"^\s*(?:import|from) ([\w.]+)", path.read_text(encoding="utf-8"), re.MULTILINE
        )
    }
    assert not imported & {"http.server", "socketserver", "xmlrpc.server", "torch.distributed.rpc", "ftplib"}


def test_a_traceback_for_debugging_carries_no_commands_to_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    error = UsageError("wrong")
    error.__cause__ = ValueError("\x1b]0;title\x07 and \u202e")
    assert report_failure(error, Face(debug=True)) == 2
    said = capsys.readouterr().err
    assert "ValueError" in said and not re.search("[\x1b\x07\u202e]", said)
