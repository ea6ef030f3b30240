"""Commands that the documentation shows are commands that advisor takes; links between its files resolve."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml

from advisor.cli import Commands
from advisor.cli.failures import Face
from advisor.cli.options import TYPED, problems_of

ROOT = Path(__file__).parents[1]
DOCUMENTS = [
    ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "ARCHITECTURE.md",
    *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("*.md")),
]  # fmt: skip
WORKFLOWS = sorted((ROOT / "examples" / "ci").glob("*.yml"))
FENCE = re.compile(r"\s*(`{3,}|~{3,})\s*(\w*)")
ENDS = {">", ">>", "<", "|", "&&", ";", "2>", "2>>", "||", "&"}


def lines_of_code(text: str) -> Iterator[str]:
    """Lines of blocks that a shell would take: fenced ones and indented ones, continued lines joined."""
    fence = language = ""
    for line in text.replace("\\\n", " ").splitlines():
        found = FENCE.match(line)
        if found and not fence:
            fence, language = found[1], found[2]
        elif found and line.strip() == fence:
            fence = ""
        elif (fence and language in ("", "sh", "bash", "console")) or (not fence and line.startswith("    ")):
            yield line.strip().removeprefix("$ ")


def commands_of(lines: Iterator[str]) -> list[str]:
    return [line for line in lines if line.startswith("advisor ")]


def commands_of_workflow(path: Path) -> Iterator[str]:
    for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values():
        for step in job["steps"]:
            yield from step.get("run", "").replace("\\\n", " ").splitlines()


SHOWN = sorted(
    {
        (str(path.relative_to(ROOT)), command)
        for path in DOCUMENTS
        for command in commands_of(lines_of_code(path.read_text(encoding="utf-8")))
    }
    | {
        (str(path.relative_to(ROOT)), command)
        for path in WORKFLOWS
        for command in commands_of(commands_of_workflow(path))
    }
)


def parse(line: str) -> click.Context:
    """What click makes of a command, every value read; nothing is run."""
    words = shlex.split(line, comments=True)[1:]
    end = next((at for at, word in enumerate(words) if word in ENDS), len(words))
    ctx, rest = click.Context(Commands("advisor"), obj=Face()), words[:end]
    while isinstance(ctx.command, click.Group):
        if not rest and ctx.command.invoke_without_command:
            break
        name, command, rest = ctx.command.resolve_command(ctx, rest)
        assert command is not None and name is not None
        ctx = command.make_context(name, list(rest), parent=ctx)
        rest = [*ctx._protected_args, *ctx.args] if isinstance(command, click.Group) else []
    problems_of(ctx).raise_any()
    return ctx


def test_documents_show_commands() -> None:
    assert len(SHOWN) > 40
    assert {"README.md", "docs/tutorial/script.md", "examples/ci/github.yml"} <= {path for path, _ in SHOWN}


@pytest.mark.parametrize(("path", "line"), SHOWN, ids=[f"{path}: {line[:60]}" for path, line in SHOWN])
def test_a_command_that_is_shown_is_taken(path: str, line: str) -> None:
    ctx = parse(line)
    assert ctx.command.name is not None


@pytest.mark.parametrize(
    "line",
    [
        "advisor tun x.py",
        "advisor tune --knobs amp x.py",
        "advisor tune x.py --budget 10",
        "advisor knobs -x",
    ],
)
def test_a_command_that_is_wrong_is_seen(line: str) -> None:
    with pytest.raises((click.ClickException, ValueError)):
        parse(line)


def test_what_was_typed_is_kept_apart_from_arguments_of_the_program() -> None:
    ctx = parse("advisor tune train.py --budget 10m -- --data DIR > out.txt")
    assert ctx.meta[TYPED] == ("train.py", "--budget", "10m")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_files_resolve(path: Path) -> None:
    text = re.sub(r"`[^`]*`", "", path.read_text(encoding="utf-8"))
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
    made = {
        "commands.md",
        "figures.md",
        "fields.md",
        "result.schema.json",
        "rules/index.md",
        "knobs/index.md",
    }
    broken = [
        target
        for target in targets
        if "://" not in target
        and not (path.parent / target).exists()
        and str(Path(target).as_posix()).removeprefix("../") not in made
    ]
    assert broken == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_puts_nothing_of_a_pull_request_into_a_script(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    scripts = [step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"]]
    assert any("advisor check" in script and "--annotate github" in script for script in scripts)
    assert not [script for script in scripts if "${{" in script]
    assert workflow["permissions"]["contents"] == "read"
