"""A page for each rule, knob and strategy, made of the docstrings that the command line shows."""

import inspect
from collections.abc import Iterator, Mapping, Sequence

from text import fenced, first_sentence, prose, table

from advisor.advice.rule import Family, Rule
from advisor.rules import RULES
from advisor.tuners.knob import AnyKnob, Change
from advisor.tuners.knobs import KNOBS
from advisor.tuners.strategies import STRATEGIES
from advisor.tuners.strategy import Strategy

FOLDERS = {"rules": RULES, "knobs": KNOBS, "strategies": STRATEGIES}
SEMANTICS = {
    "exact": "the same numbers",
    "rounding": "the same but for the order of additions",
    "precision": "computed with fewer bits",
    "training": "what is learnt can differ",
}
MOST_EXAMPLES = 6


def pages() -> Iterator[tuple[str, str]]:
    """Path and Markdown of every page."""
    yield "rules/index.md", _rules_index()
    yield "knobs/index.md", _knobs_index()
    yield from ((f"rules/{name}.md", _rule(name, one)) for name, one in RULES.items())
    yield from ((f"knobs/{name}.md", _knob(name, one)) for name, one in KNOBS.items())
    yield from ((f"strategies/{name}.md", _strategy(name, one)) for name, one in STRATEGIES.items())


def _links() -> Mapping[str, str]:
    """The page of every name, seen from a page in one of the folders; a rule wins over a knob of its name."""
    found: dict[str, str] = {}
    for folder, members in FOLDERS.items():
        for name in members:
            found.setdefault(name, f"../{folder}/{name}.md")
    return found


def _told(one: object) -> str:
    return prose(inspect.getdoc(type(one)) or "", _links())


def _sentence(one: object) -> str:
    return prose(first_sentence(inspect.getdoc(type(one)) or ""))


def _named(folder: str, name: str) -> str:
    return f"[`{name}`](../{folder}/{name}.md)"


def _rules_index() -> str:
    lines = [
        "# Rules",
        f"What is looked for: {len(RULES)} rules. Each sees only what was recorded of a run, and says "
        "`not applicable` where a fact is missing. *Waste* costs for nothing; *headroom* is a faster way of "
        "doing the same; *risk* is about memory, correctness or the measurement itself. `advisor rules ID` "
        "shows the same pages.",
    ]
    for family in Family:
        rows = [
            (f"[`{name}`]({name}.md)", one.kind.value, _sentence(one))
            for name, one in RULES.items()
            if one.family is family
        ]
        lines += [f"## {family.value.capitalize()}", table(("rule", "kind", "says"), rows)]
    return "\n\n".join(lines) + "\n"


def _rule(name: str, rule: Rule) -> str:
    tested = [_named("strategies" if id in STRATEGIES else "knobs", id) for id in rule.knobs]
    causes = [_named("rules", other) for other, one in RULES.items() if name in one.explains]
    facts = [
        ("Family", rule.family.value),
        ("Kind", rule.kind.value),
        ("Fires when", prose(rule.threshold)),
        ("Tested by", ", ".join(tested) or "nothing: the advice is for you to follow"),
        ("Can be the cause of", ", ".join(_named("rules", id) for id in rule.explains)),
        ("Can be caused by", ", ".join(causes)),
    ]
    return "\n\n".join([f"# {name}", _told(rule), _facts(facts)]) + "\n"


def _knobs_index() -> str:
    rows = [(f"[`{name}`]({name}.md)", one.semantics.value, _sentence(one)) for name, one in KNOBS.items()]
    meanings = "; ".join(f"*{name}*: {meaning}" for name, meaning in SEMANTICS.items())
    lines = [
        "# Knobs",
        f"What can be set: {len(KNOBS)} knobs. The second column says what a change may do to the numbers "
        f"that are computed ({meanings}). `advisor knobs ID` shows the same pages.",
        table(("knob", "numbers", "what it is"), rows),
    ]
    return "\n\n".join(lines) + "\n"


def _knob(name: str, knob: AnyKnob) -> str:
    asked = [_named("rules", rule) for rule, one in RULES.items() if name in one.knobs]
    facts = [
        ("Numbers", f"{knob.semantics.value}: {SEMANTICS[knob.semantics.value]}"),
        ("Values", _listed(knob)),
        ("Switched", "between two steps of one process" if knob.live else "in a fresh process"),
        ("Tried", "only when named" if knob.named_only else "where it applies"),
        ("Goes with", _named("knobs", knob.follows) if knob.follows else ""),
        ("Asked for by", ", ".join(asked)),
    ]
    lines = [f"# {name}", _told(knob), _facts(facts), "## To adopt"]
    for value in _examples(knob):
        lines += [f"`{value}`:", _written(knob.change(value))]
    lines += ["## To try", fenced(f"advisor tune train.py --knob {name}")]
    return "\n\n".join(lines) + "\n"


def _strategy(name: str, strategy: Strategy) -> str:
    share = "takes its share of it" if strategy.splits_batch else "is given the whole of it"
    facts = [
        ("Numbers", f"{strategy.semantics.value}: {SEMANTICS[strategy.semantics.value]}"),
        ("Of each batch every worker", share),
    ]
    lines = [
        f"# {name}", _told(strategy), _facts(facts), "## To adopt", _written(strategy.change()),
        "## To try", fenced(f"advisor tune workload.py --knob strategy={name} --ranks 2"),
        "[What all strategies keep equal](../strategies.md)",
    ]  # fmt: skip
    return "\n\n".join(lines) + "\n"


def _facts(facts: Sequence[tuple[str, str]]) -> str:
    """Those that there are, as points."""
    return "\n".join(f"- **{name}**: {said}" for name, said in facts if said)


def _written(change: Change) -> str:
    """What a user writes and sets."""
    parts = [fenced(change.snippet, "python")] if change.snippet else []
    if change.environment:
        parts.append(
            fenced("\n".join(f"export {name}={value}" for name, value in change.environment.items()))
        )
    return "\n\n".join(parts) or "Nothing: it is what torch does by itself."


def _listed(knob: AnyKnob) -> str:
    legal = knob.values()
    if isinstance(legal, range):
        return f"{legal.start} to {legal.stop - 1}"
    return ", ".join(f"`{value}`" for value in legal)


def _examples(knob: AnyKnob) -> list[int | str]:
    legal = knob.values()
    return (
        [value for value in (2, 4) if value in legal]
        if isinstance(legal, range)
        else list(legal)[:MOST_EXAMPLES]
    )
