"""A gated recurrence is written out in Python, though torch has one call for all its moments."""

from collections import defaultdict

from advisor.advice.finding import Finding, Kind
from advisor.advice.line_rule import LineRule
from advisor.advice.rule import Family, percent
from advisor.profiles.facts.observed import LineCalls, Location
from advisor.profiles.facts.profile import Profile, StepPhases
from advisor.rules.piecewise_calls import TURNS, calls_share

EACH = 0.5  # of the calls of a line that need the one before, at least: a line may make two in a moment
GATES = frozenset({"sigmoid", "tanh"})
LAYERS = {"lstm": "LSTM", "gru": "GRU", "rnn_tanh": "RNN", "rnn_relu": "RNN"}  # given one moment at a time
CELLS = LAYERS | {f"{layer}_cell": name for layer, name in LAYERS.items()}
THRESHOLD = 0.05  # of the step, as for `piecewise_calls`
NEEDED = 0.5  # relative error of the ceiling: the arithmetic of the recurrence stays


class UnrolledRecurrence(LineRule):
    """Gates are computed moment by moment in Python: a product, a sigmoid and a tanh for each, many times.

    Each call costs microseconds beside arithmetic that is tiny, forwards and backwards, and no call can be
    left out, since each needs the one before. `torch.nn.LSTM` and `torch.nn.GRU` run all moments in one call,
    with one product for all gates, and the inputs' part of it for all moments at once, unless the loop
    gives them one moment at a time. That fits where only
    the cell lies between one moment and the next. Where the cell is another one, compute all gates by one
    product (`gates.chunk(4, 1)`), the inputs' part before the loop, or compile the cell. The ceiling is half
    to all of the time of these lines.
    """

    family = Family.COMPUTE
    kind = Kind.WASTE
    on_traces = "which call needs which: a trace does not hold it"
    threshold = (
        f"{TURNS} calls in turn, each of which needs the one before, of lines of one function with weights, "
        "sigmoid and tanh, or of a recurrent cell or layer; 5 % of the step (as for `piecewise_calls`)"
    )
    explains = ("launch_bound", "hot_line", "unattributed_time", "idle_device", "optimizer_bound")

    def judge(self, profile: Profile, phases: StepPhases) -> Finding:
        loops = {place: lines for place, lines in _in_turn(profile).items() if _is_gated(lines)}
        shares = {place: calls_share(lines, phases) for place, lines in loops.items()}
        share = min(1.0, sum(shares.values()))
        said = f"{percent(share)} of each step runs a recurrence moment by moment"
        if share < THRESHOLD:
            return self.passed(said)
        worst = max(shares, key=lambda each: shares[each])
        lines = loops[worst]
        first = max((line for line in lines if line.weights), key=lambda line: line.share)
        moments = min(line.turns for line in lines)
        return self.opportunity(
            f"{said}: {sum(line.calls for line in lines)} calls for {moments} moments at {first.location}",
            self.timeline(share, NEEDED),
            advice=_advice(lines),
            location=first.location,
            evidence={
                "moments": moments,
                "lines": [
                    {"location": str(line.location), "calls": line.calls, "chain": line.chain}
                    for line in lines
                ],
            },
        )


def _in_turn(profile: Profile) -> dict[tuple[str, str | None], list[LineCalls]]:
    """Lines whose calls need each other, by file and function."""
    found: dict[tuple[str, str | None], list[LineCalls]] = defaultdict(list)
    for line in profile.line_calls:
        if line.graphed and line.turns >= TURNS and line.chain >= EACH * line.turns:
            found[_function(line.location)].append(line)
    return found


def _function(place: Location) -> tuple[str, str | None]:
    return place.file, place.function


def _is_gated(lines: list[LineCalls]) -> bool:
    called = {name.rstrip("_") for line in lines for name in line.functions}
    return any(line.weights for line in lines) and (called >= GATES or not called.isdisjoint(CELLS))


def _advice(lines: list[LineCalls]) -> str:
    called = {name for line in lines for name in line.functions}
    cell = next((CELLS[name] for name in CELLS if name in called), None)
    which = f"`torch.nn.{cell}`" if cell else "`torch.nn.LSTM`, or `torch.nn.GRU`,"
    return (
        f"Give the whole sequence to {which} where only the cell lies between one moment and the next. "
        "Else make one product for all gates and the inputs' part of it before the loop; sums may round "
        "differently."
    )
