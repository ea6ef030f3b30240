"""``advisor plan``: what other numbers of ranks would give, without torch."""

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from advisor.base.errors import UsageError, clean
from advisor.cli import EXIT_CODES, values
from advisor.cli.common import DEBUG, NO_COLOR, formats, whole_number
from advisor.cli.configuration import Form
from advisor.cli.options import SCRIPT_ARGUMENTS, Command, problems_of, setting
from advisor.cli.output import warn, write

if TYPE_CHECKING:
    from advisor.planning.network import Network
    from advisor.planning.plan import Batch

HELP = """Predict what other numbers of ranks would give, with an interval and the reason.

POINTS.csv holds measured steps: `ranks,nodes,local_batch,step_ms`, and optionally `placement` (2-2-4: ranks
on each node), `exposed_communication_ms`, `parameters`, `bytes_per_step`. What was measured stays measured.
RESULT is that of `advisor tune --knob strategy`: each strategy that it measured is planned, and all compared.
A file with a column `tensor_parallel` holds layouts of transformers: which would be fastest at each count.

\b
Examples:
  advisor plan points.csv --ranks 1,2,4,8,16,32,64
  advisor plan advisor-report --ranks 1,2,4,8
  advisor plan points.csv --ranks 64,128 --network 4x100Gb --price 2.50 --until 1e8
"""
RANKS = (1, 2, 4, 8, 16, 32, 64)


UNTIL = re.compile(r"([0-9.]+(?:e\+?[0-9]+)?)\s*(epochs?|samples)?", re.IGNORECASE)


def _until(written: str) -> tuple[float, bool]:
    """A number, and whether it counts epochs."""
    found = UNTIL.fullmatch(written.strip())
    try:
        count = float(found[1]) if found else 0.0
    except ValueError:
        count = 0.0
    if found is None or not 0 < count < 1e18:
        raise UsageError(
            f"'{clean(written, 60)}' is no number of samples or epochs",
            hint="`--until 1e8`, or `--until 90epochs`",
        )
    return count, (found[2] or "").lower().startswith("epoch")


def _positive(written: str) -> float:
    try:
        value = float(written)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e18:
        raise UsageError(f"'{clean(written, 60)}' is not a number above 0", hint="`48`")
    return value


def _network(written: str) -> "Network | None":
    from advisor.planning.network import network_of

    return network_of(written)


@click.command(
    "plan",
    cls=Command,
    from_files=(),
    help=HELP,
    epilog=EXIT_CODES,
    short_help="Predict what other numbers of ranks would give.",
)
@click.argument("points", nargs=-1, type=click.UNPROCESSED, metavar="RESULT...|POINTS.csv")
@setting(
    "--ranks",
    read=values.ranks,
    metavar="N,...",
    form=Form((int, str)),
    group="What to run",
    default_text="what was measured; more, to 64 or 8 times as many",
    help="Counts to predict.",
)
@setting("--at", type=str, metavar="FILE", group="What to run", help="Places to predict, as a CSV file.")
@whole_number("--gpus-per-node", "Ranks that fit on a node.", default="as measured, else 8")
@setting(
    "--network",
    read=_network,
    metavar="NAME",
    group="What to run",
    default_text="measured",
    help="Cards of a node: 100Gb, 8x400Gb, ib, ethernet, nvlink; or a file of bus bandwidths.",
)
@setting(
    "--batch",
    type=values.Choice(("keep-local", "keep-global", "goodput")),
    metavar="NAME",
    group="What to run",
    default_text="keep-local",
    help="What stays: keep-local or keep-global; goodput takes the batch that learns fastest.",
)
@setting(
    "--strategy",
    type=str,
    metavar="NAME",
    group="What to run",
    default_text="all that a result measured; an all-reduce",
    help="One of a result; or how a points file trained: zero.",
)
@setting("--gpu", type=str, metavar="NAME", group="What counts", help="GPU whose memory ranks have: H100.")
@setting("--price", read=values.price, metavar="PER_HOUR", group="What counts", help="Of one rank.")
@setting(
    "--until",
    read=_until,
    metavar="SAMPLES",
    group="What counts",
    help="Samples to be seen in all: 1e8; or 90epochs.",
)
@setting(
    "--deadline",
    read=_positive,
    metavar="HOURS",
    group="What counts",
    help="Name the cheapest count in this time.",
)
@setting(
    "--spend", read=_positive, metavar="SUM", group="What counts", help="Name the fastest count for this sum."
)
@setting(
    "--noise-scale",
    read=_positive,
    metavar="SAMPLES",
    group="What counts",
    default_text="as the result measured it, else not counted",
    help="Gradient noise scale: larger batches need more samples.",
)
@setting(
    "--convergence",
    type=str,
    metavar="FILE",
    group="What counts",
    help="Samples to a target by batch: batch,samples_to_target.",
)
@setting(
    "--failures",
    read=_positive,
    metavar="GPU_HOURS",
    group="What counts",
    help="Count stops, one per so many GPU-hours.",
)
@setting("--far", group="What counts", help="Predict beyond 64 times the most ranks measured.")
@formats("text", "json", "md", "html")
@setting("--out", type=str, metavar="DIR", group="Output", help="Write the page and the data to this folder.")
@NO_COLOR
@DEBUG
@click.pass_context
def command(
    ctx: click.Context, *, points: tuple[str, ...], ranks: tuple[int, ...] | None, at: str | None,
    gpus_per_node: int | None, network: "Network | None",
    batch: Literal["keep-local", "keep-global", "goodput"] | None,
    strategy: str | None, gpu: str | None, price: float | None, until: tuple[float, bool] | None,
    deadline: float | None, spend: float | None, noise_scale: float | None, convergence: str | None,
    failures: float | None, far: bool,
    format: Literal["text", "json", "md", "html"] | None, out: str | None, no_color: bool, debug: bool,
) -> int:  # fmt: skip
    """Read, predict, print."""
    problems = problems_of(ctx)
    given = (*points, *ctx.meta[SCRIPT_ARGUMENTS])
    with problems.gather():
        _require_sources(given)
    with problems.gather():
        if at is not None and (ranks is not None or batch is not None or gpus_per_node is not None):
            raise UsageError(
                "--at names the places already",
                hint="leave out --ranks, --batch, --gpus-per-node",
            )
    with problems.gather(where="--price"):
        if price is not None and until is None and convergence is None:
            raise UsageError("a price needs an end", hint="`--until 1e8`: samples to be seen in all")
    for name, value in (("--deadline", deadline), ("--spend", spend), ("--noise-scale", noise_scale),
                        ("--failures", failures)):  # fmt: skip
        with problems.gather(where=name):
            ended = until is not None or convergence is not None
            if value is not None and not ended and (name, batch) != ("--noise-scale", "goodput"):
                raise UsageError(f"{name} needs an end", hint="`--until 1e8`: samples to be seen in all")
    with problems.gather(where="--convergence"):
        if convergence is not None and noise_scale is not None:
            raise UsageError("convergence points tell the noise scale", hint="leave out --noise-scale")
    with problems.gather(where="--spend"):
        if spend is not None and price is None:
            raise UsageError("a sum needs a price", hint="`--price 2.5`: of one rank for an hour")
    with problems.gather():
        if out is None and format == "html" and sys.stdout.isatty():
            raise UsageError("HTML to a terminal", hint="`> plan.html`, or `--out DIR`")
    problems.raise_any()
    if len(given) == 1 and _holds_layouts(given[0]):
        return _plan_layouts(ctx, given[0])
    from advisor.cli.planned import shown_plan, write_plan
    from advisor.planning.convergence import read_convergence
    from advisor.planning.goal import Goal, present_batch, samples_of
    from advisor.planning.goodput_batch import goodput_places
    from advisor.planning.in_python import NO_NOISE, NOISE_HINT
    from advisor.planning.memory import Memory
    from advisor.planning.places import Measured
    from advisor.planning.plan import make_plan, places
    from advisor.planning.points_file import read_places, read_points, unread
    from advisor.planning.predicting import Interval
    from advisor.planning.scheme import AS_MEASURED, chosen
    from advisor.planning.whole import Whole

    memory: Memory | None = None
    noise = None if noise_scale is None else Interval(noise_scale, noise_scale, noise_scale)
    all_results = all(_is_result(name) for name in given)
    if all_results:
        from advisor.cli.found import read_result_file
        from advisor.planning.result_memory import memory_of
        from advisor.planning.result_points import measured_strategies, noise_of

        results = [read_result_file(name) for name in given]
        found = measured_strategies(results)
        memory = memory_of(results, found, gpu)
        noise = noise or noise_of(results)
    else:
        if gpu is not None:
            raise UsageError("a points file says nothing of memory", hint="`--gpu` is for a result")
        found = {AS_MEASURED: Measured(read_points(Path(given[0])))}
        if others := unread(Path(given[0])):
            names = ", ".join(clean(name, 40) for name in others[:8])
            warn(f"not read: {names}", hint="rows of one program alone belong together", no_color=no_color)
    found = chosen(found, strategy)
    measured = [point for one in found.values() for point in one.points]
    counts = {(point.place.ranks, point.place.nodes) for point in measured}
    if len(counts) == 1:
        warn(
            "only one count was measured: nothing is known of this program's communication",
            hint="measure a second count, and two nodes, for two minutes each",
            no_color=no_color,
        )
    epochs = until[0] if until is not None and until[1] else None
    samples = until[0] if until is not None else None
    if epochs is not None:
        samples = samples_of(epochs, measured)
    curve = None if convergence is None else read_convergence(Path(convergence))
    if curve is not None:
        noise, samples = curve.noise, samples or curve.samples(present_batch(measured))
    named = noise_scale is not None or curve is not None
    goal = Goal(
        samples, price, noise if samples is not None or batch == "goodput" else None, failures,
        noise_tag="named" if named else "measured", epochs=epochs, convergence=curve,
    )  # fmt: skip
    wanted = ranks or _usual({count for count, _ in counts})
    if at is not None:
        asked = read_places(Path(at))
    elif batch == "goodput":
        if noise is None:
            raise UsageError(NO_NOISE, hint=NOISE_HINT)
        asked = goodput_places([one.points for one in found.values()], wanted, gpus_per_node, goal)
    else:
        asked = places(measured, wanted, gpus_per_node, batch or "keep-local")
    plans = [
        make_plan(
            one.points, asked, network=network, goal=goal, far=far, strategy=name, memory=memory,
            servers=one.servers, ages=one.ages, supply=one.supply,
        )
        for name, one in found.items()
    ]  # fmt: skip
    fitting = [] if memory is None else memory.table(asked)
    whole = Whole.of(plans, fitting, deadline_hours=deadline, spend=spend)
    if out is not None:
        write_plan(Path(out), whole)
        return 0
    write(shown_plan(whole, format or "text"))
    return 0


def _usual(measured: set[int]) -> tuple[int, ...]:
    """Counts that are asked for where none is named: as measured, and more."""
    more = {count for count in RANKS if count > min(measured)}
    return tuple(sorted(measured | more | {max(measured) * times for times in (2, 4, 8)}))


def _holds_layouts(name: str) -> bool:
    from advisor.planning.layouts.layout_file import holds_layouts

    return not _is_result(name) and holds_layouts(Path(name))


def _plan_layouts(ctx: click.Context, name: str) -> int:
    """Predict layouts; of the options those that they have."""
    from advisor.cli.layouts import show_layouts

    options = ctx.params
    for option in (
        "network",
        "strategy",
        "gpu",
        "price",
        "until",
        "deadline",
        "spend",
        "noise_scale",
        "convergence",
        "failures",
        "out",
    ):
        if options[option] is not None:
            raise UsageError(f"--{option.replace('_', '-')} is not for a file of layouts")
    if options["format"] == "html":
        raise UsageError("layouts have no page", hint="`--format text`, `json` or `md`")
    if options["batch"] == "goodput":
        raise UsageError("--batch goodput is not for a file of layouts", hint="keep-local or keep-global")
    at = options["at"]
    batch: Batch = options["batch"] or "keep-local"
    show_layouts(
        Path(name), None if at is None else Path(at), options["ranks"], options["gpus_per_node"], batch,
        options["format"] or "text",
    )  # fmt: skip
    return 0


def _is_result(name: str) -> bool:
    return name.endswith(".json") or Path(name).is_dir()


def _require_sources(names: tuple[str, ...]) -> None:
    hint = "`advisor plan points.csv --ranks 1,2,4,8,16`"
    if not names:
        raise UsageError("Missing argument 'POINTS.csv'.", hint=hint)
    if len(names) > 1 and not all(map(_is_result, names)):
        raise UsageError(
            f"got an unexpected extra argument ({clean(names[1])})",
            hint="one points file, or results of one program",
        )
