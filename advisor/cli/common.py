"""Options that mean the same wherever they stand; a command puts them on as decorators."""

from pathlib import Path

from advisor.cli import values
from advisor.cli.options import setting
from advisor.errors import UsageError

DEFAULT_OUT = "advisor-report"

MODULE = setting(
    "-m",
    "module",
    read=values.text,
    metavar="MODULE",
    group="What to run",
    help="Run a module in place of a file.",
)
LAUNCHER = setting("--exec", "launcher", group="What to run", help="What follows -- is a launcher's command.")
DEVICE = setting(
    "--device",
    read=values.device,
    metavar="DEVICE",
    group="What to run",
    default_text="auto",
    help="auto, cpu, cuda or cuda:N.",
)
RANKS = setting(
    "--ranks",
    read=values.ranks,
    metavar="N,...",
    file_types=(int, str),
    group="What to run",
    help="Numbers of workers that strategies are tried with.",
)
SEED = setting(
    "--seed", read=values.seed, metavar="N", file_types=(int,), group="What to run", default_text="0"
)
CONFIDENCE = setting(
    "--confidence",
    read=values.confidence,
    metavar="SHARE",
    file_types=(float, str),
    group="What counts",
    default_text="0.99",
    help="Of all intervals.",
)
FORMAT = setting(
    "--format",
    read=values.choice(("text", "json", "md")),
    metavar="NAME",
    group="Output",
    default_text="text",
    help="text, json or md, on stdout.",
)
DRY_RUN = setting("--dry-run", group="Output", help="Say what would be done; starts and writes nothing.")
QUIET = setting("--quiet", group="Output", help="No progress.")
NO_COLOR = setting("--no-color", group="Output", help="No colour.")
DEBUG = setting("--debug", group="Output", help="Show tracebacks of errors.")


def report_folder(out: str | None) -> Path:
    """The folder of ``--out``.

    Raises:
        UsageError: It is empty, a file, or holds something that is not ours.
        EnvironmentProblem: It cannot be written to.
    """
    from advisor.report_folder import check_folder

    text = DEFAULT_OUT if out is None else out
    if not text.strip() or "\0" in text:
        raise UsageError("--out is empty", hint=f"leave it out for {DEFAULT_OUT}/")
    check_folder(Path(text))
    return Path(text)
