"""The faces of a plan in words: an answer, tables, and what they rest on."""

from collections.abc import Sequence

from advisor.planning.memory import RankMemory
from advisor.planning.places import ranks_of
from advisor.planning.plan import Plan, Prediction
from advisor.planning.predicting import Interval
from advisor.planning.whole import Whole
from advisor.report.markdown import escaped, section
from advisor.result import wording

HEADINGS = ("ranks", "nodes", "batch", "step (90 % interval)", "trivial", "speed-up")
PART_NAMES = {
    "computing_ms": "computing",
    "waiting_ms": "waiting for the slowest",
    "communication_ms": "exposed communication",
    "bubble_ms": "bubble",
}
LAWS_TITLE = "How communication grows (n ranks, R nodes, g a node, S bytes, a latency, B bytes/s)"
NOT_IN_IT = (
    "other jobs on the network, failures unless --failures, storage under many readers, learning at another "
    "global batch unless --noise-scale or --convergence, the speed of another GPU than the measured one"
)


def answer(plan: Plan) -> str:
    """The one sentence: the largest count, and how much of perfect scaling that is."""
    row = max(plan.predictions, key=lambda one: one.ranks)
    gain = figures(row.speedup, "x")
    if row.measured:
        return f"{ranks_of(row.ranks)} give {gain} the throughput of the fewest measured: measured."
    return (
        f"{ranks_of(row.ranks)} would give {gain} the throughput of the fewest measured, 90 % interval; "
        "predicted, not measured."
    )


def rows(plan: Plan) -> list[tuple[str, ...]]:
    """The table by count, the heading first."""
    return [HEADINGS, *map(_row, plan.predictions)]


def _row(row: Prediction) -> tuple[str, ...]:
    return (
        str(row.ranks),
        str(row.nodes),
        f"{row.local_batch:g}",
        figures(row.step_ms, " ms"),
        f"{_digits(row.trivial_step_ms)} ms",
        figures(row.speedup, "x"),
    )


def cost_rows(plan: Plan) -> list[tuple[str, ...]]:
    """Throughput, and hours and price where they were asked for, with what is to be known of each count."""
    more = [name for name in ("hours", "price") if any(getattr(row, name) for row in plan.predictions)]
    return [
        ("ranks", "samples/s", *more, "note"),
        *(
            (
                str(row.ranks),
                _digits(row.throughput.estimate),
                *(figures(getattr(row, name)) for name in more),
                row.note,
            )
            for row in plan.predictions
        ),
    ]


def note_lines(plan: Plan) -> list[str]:
    """What is to be known of each count, counts of which the same is to be known together."""
    counts: dict[str, list[str]] = {}
    for row in plan.predictions:
        counts.setdefault(row.note, []).append(str(row.ranks))
    return [f"{', '.join(ranks)}: {note}" for note, ranks in counts.items()]


def part_rows(plan: Plan) -> list[tuple[str, ...]]:
    """Parts of a step by count, the heading first; models all, scaled to the step."""
    heading = ("ranks", *(PART_NAMES[part] for part in plan.predictions[0].parts_ms))
    return [heading] + [
        (str(row.ranks), *(_part(value, sum(row.parts_ms.values())) for value in row.parts_ms.values()))
        for row in plan.predictions
    ]


def _part(value: float, step: float) -> str:
    """Less than a thousandth of a step is nothing that a model could tell."""
    return f"{_digits(value)} ms" if value >= step / 1000 else "-"


def memory_rows(found: Sequence[RankMemory]) -> list[tuple[str, ...]]:
    """Memory of a rank by count and strategy, the heading first."""
    return [
        ("ranks", "strategy", "peak", "reserved", "of", "", "from"),
        *(
            (
                str(row.ranks),
                row.strategy,
                _sizes(row.peak_bytes, row.high_bytes),
                _sizes(row.reserved_bytes),
                _sizes(row.capacity_bytes),
                row.fit,
                row.basis,
            )
            for row in found
        ),
    ]


def memory_lines(found: Sequence[RankMemory]) -> list[str]:
    """What is assumed of how strategies divide memory."""
    return [
        f"{name}: {assumed}"
        for name, assumed in {row.strategy: row.assumed for row in found if row.assumed}.items()
    ]


def _sizes(size: float | None, most: float | None = None) -> str:
    """One size, or from one to another where they differ by a percent."""
    if size is None:
        return "-"
    told = wording.mib(size)
    return told if most is None or most <= 1.01 * size else f"{told} to {wording.mib(most)}"


def record_lines(plan: Plan) -> list[str]:
    """How such predictions did on public programs, one line for each that differs."""
    said = {}
    for row in plan.predictions:
        if (record := row.record) is not None:
            said[record] = (
                f"such as {ranks_of(row.ranks)}: off by {record.mean_error:.1%} in the mean "
                f"(median {record.median_error:.1%}; perfect scaling {record.trivial_error:.1%}) on "
                f"{record.series} public series, intervals held {record.covered:.0%}"
            )
    return list(said.values())


def last_lines(plan: Plan) -> list[str]:
    """What to look at again, what is left out, what would narrow it, what is not in it."""
    return [
        *(f"look again: {text}" for text in plan.doubts),
        *(f"left out: {text}" for text in plan.left_out),
        f"what would narrow this most: {plan.narrower}",
        f"not in it: {NOT_IN_IT}",
    ]


def law_lines(plan: Plan) -> list[str]:
    """The laws by which communication grows, each with its formula and who published it."""
    return [f"{law.name}: {law.formula} ({law.source})" for law in plan.laws]


def basis_lines(plan: Plan) -> list[str]:
    """Each input with where it comes from."""
    return [f"{row.tag}: {row.what}" for row in plan.basis]


def render_whole(whole: Whole) -> str:
    """Everything that was planned for a document or a pull request."""
    parts = []
    for plan in whole.plans:
        name = f"Strategy {escaped(plan.predictions[0].strategy, 60)}\n\n" if len(whole.plans) > 1 else ""
        parts.append(name + render_markdown(plan))
    if whole.memory:
        heading, *cells = memory_rows(whole.memory)
        told = section("Memory of one rank", heading, [tuple(map(escaped, row)) for row in cells])
        said = "".join(f"- {escaped(line, 200)}\n" for line in memory_lines(whole.memory))
        parts.append("\n".join(told) + f"\n\n{said}")
    if whole.choices:
        parts.append("**What to take**\n\n" + "".join(f"- {escaped(line, 1000)}\n" for line in whole.choices))
    if whole.compared:
        said = "".join(f"- {escaped(row.sentence, 1000)}\n" for row in whole.compared)
        parts.append(f"**Strategies compared**\n\n{said}")
    return "\n".join(parts)


def render_markdown(plan: Plan) -> str:
    """The plan for a document or a pull request."""
    parts = [f"**{escaped(answer(plan), 1000)}**", ""]
    for title, (heading, *cells) in (
        ("By count", rows(plan)),
        ("What it gives and costs", cost_rows(plan)),
        ("Parts of a step (model)", part_rows(plan)),
    ):
        parts += section(title, heading, [tuple(map(escaped, row)) for row in cells])
    for title, lines in (
        ("It rests on", basis_lines(plan)),
        (LAWS_TITLE, law_lines(plan)),
        ("How such predictions did", record_lines(plan)),
        ("What else", last_lines(plan)),
    ):
        if lines:
            parts += ["", f"**{title}**", "", *(f"- {escaped(line, 1000)}" for line in lines)]
    return "\n".join(parts) + "\n"


def figures(value: Interval | None, unit: str = "") -> str:
    """An estimate and its interval, in three digits."""
    if value is None:
        return "-"
    if value.low == value.high:
        return f"{_digits(value.estimate)}{unit}"
    return f"{_digits(value.estimate)}{unit} ({_digits(value.low)} to {_digits(value.high)})"


def _digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
