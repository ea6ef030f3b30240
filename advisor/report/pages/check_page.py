"""The faces of a check: text for a terminal, Markdown for a pull request, and the files of ``--out``."""

import shlex
from pathlib import Path

from advisor.base.atomic_file import write_atomically
from advisor.base.errors import EnvironmentProblem, clean
from advisor.report.charts.charts import phase_words
from advisor.report.folder import check_folder
from advisor.report.lines import wrapped
from advisor.report.markdown import code, escaped, fitted, section
from advisor.result import wording
from advisor.result.check import CheckData, Checked
from advisor.result.conditions import reproduce
from advisor.result.document import Interval
from advisor.result.wording import shown

JSON_FILE, MARKDOWN_FILE = "check.json", "check.md"
MARKER = "<!-- advisor check -->"  # one hidden line by which a comment is found again and updated


def render_text(result: CheckData, width: int) -> str:
    """The check for a terminal: verdict, both quantities, what could have been seen; no colour codes.

    Args:
        result: What ``check`` found.
        width: Longest line.
    """
    lines = [verdict(result), "", *(f"{name}: {_row(name, each)}" for name, each in quantities(result))]
    if result.verdict == "regressed":
        lines += ["", "One step, in one process each:", *_phase_lines(result)]
    lines += ["", *notes(result), *(f"warning: {shown(text, 500)}" for text in result.warnings)]
    lines += ["", f"Next: {_next(result)}", f"Again: {reproduce(result)}"]
    return wrapped(lines, width)


def render_markdown(result: CheckData) -> str:
    """The check for a pull request or a step summary: verdict first, then tables; it fits a comment.

    Where that is too little, whole sections go, the last ones first, and are named.
    """
    rows = []
    for name, each in quantities(result):
        then, now = (_value(name, value) for value in (each.then, each.now))
        rows.append((name, then, now, _change(each), _smallest(each)))
    phases = [(escaped(phase_words(part)), then, now) for part, then, now in _phases(result)]
    settings = [(code(each.knob), code(each.then), code(each.now)) for each in result.settings]
    sections = {
        "quantities": section(
            "", ("what", "then", "now", "now over then", "smallest regression that could be seen"), rows
        ),
        "notes": [f"- {escaped(text, 1000)}" for text in notes(result, settings=False)],
        "how to repeat it": [f"Again: {code(reproduce(result), 200)}"],
        "parts of a step": section("One step, in one process each", ("part", "then", "now"), phases),
        "settings that changed": section("Settings that changed", ("knob", "then", "now"), settings),
        "warnings": [f"- {escaped(text, 1000)}" for text in result.warnings],
    }
    opening = [MARKER, f"**{escaped(verdict(result), 1000)}**"]
    return fitted(opening, sections, list(sections)[::-1], f"`{JSON_FILE}`")


def verdict(result: CheckData) -> str:
    """The one sentence that opens every face."""
    limit = wording.percent(result.min_gain)
    worse = [
        f"{told(name)} is {wording.ratio(each.ratio)} what it was"
        for name, each in quantities(result)
        if each.verdict == "regressed"
    ]
    if worse:
        told_of_answers = f"; {_disagreement(result)}" if _disagreement(result) else ""
        return f"Regression: {' and '.join(worse)}; {limit} is let pass{told_of_answers}."
    if said := _disagreement(result):
        return f"Regression: {said}."
    compared = [told(name) for name, each in quantities(result) if each.verdict != "not_compared"]
    agreed = "the recommended form still says the same" if result.answers is not None else ""
    grown = f"no growth of {' or '.join(compared)} by more than {limit} was shown" if compared else ""
    return f"Passed: {'; '.join(filter(None, (agreed, grown)))}."


def _disagreement(result: CheckData) -> str:
    """What of the recommended form no longer agrees; empty where all does."""
    answers = result.answers
    if answers is None or answers.verdict == "accepted":
        return ""
    changes = ", ".join(f"{shown(name)}={shown(value)}" for name, value in answers.changes.items())
    names = {name: shown(why, 500) for name, why in answers.rejected.items()}
    whole = len(names) == len(answers.changes) == 1 or not names
    reason = shown(answers.why, 500) or next(iter(names.values()), "")
    reasons = reason if whole else "; ".join(f"{shown(name)}: {why}" for name, why in names.items())
    verb = "no longer says the same" if answers.verdict == "refused" else "is not shown to say the same"
    return f"{changes} {verb}: {reasons}"


def notes(result: CheckData, *, settings: bool = True) -> list[str]:
    """Under which conditions the verdict holds, in sentences."""
    made, changed = shown(result.reference.created), result.code_changed
    seen = [
        f"{wording.difference(share)} {'of' if share <= wording.MOST_SHARE else 'in'} {told(name)}"
        for name, each in quantities(result)
        if (share := each.smallest_regression) is not None
    ]
    path = f"{shown(result.reference.path)}{f' of {made}' if made else ''}"
    said = [
        f"The smallest regression that could have been seen: {', '.join(seen)}.",
        f"Compared with {path}, which was measured at another time, not interleaved with this run: a drift "
        "of the machine is not excluded.",
    ]
    if not seen:
        said = [f"Compared with {path}."]
    if result.answers is not None:
        said.append(
            "The recommended form was measured on another CPU, or by other versions: its answers were judged "
            "anew, on samples that served nothing else."
        )
    if changed is not None:
        said.append(f"The code {'changed' if changed else 'did not change'} since.")
    if result.budget.stopped_by == "interrupted":
        said.append(f"The check was interrupted after {result.instances} processes.")
    left_out = [
        f"{shown(name).replace('_', ' ')} {count}" for name, count in result.excluded_slots.items() if count
    ]
    said += [f"Left out of what was measured: {', '.join(left_out)}."] if left_out else []
    if settings:
        said += [
            f"Changed setting: {shown(each.knob)}={shown(each.then)} then, {shown(each.now)} now."
            for each in result.settings
        ]
    return said


def write_check(result: CheckData, folder: Path) -> list[Path]:
    """Write ``check.json`` and ``check.md``, each at once; the paths in that order.

    Raises:
        UsageError: ``folder`` is not one that a check may be written to.
        EnvironmentProblem: It cannot be written to.
    """
    check_folder(folder)
    contents = {JSON_FILE: result.to_json(), MARKDOWN_FILE: render_markdown(result)}
    try:
        folder.mkdir(exist_ok=True)
        for name, content in contents.items():
            write_atomically(folder / name, content)
    except OSError as error:
        cause = (error.strerror or type(error).__name__).lower()
        raise EnvironmentProblem(f"cannot write to {clean(str(folder))}", cause=cause) from None
    return [folder / name for name in contents]


def quantities(result: CheckData) -> list[tuple[str, Checked]]:
    """What is compared, with its name as a table says it."""
    time = "Time of a step" if result.step_ms.per == "step" else "Time per sample"
    return [(time, result.step_ms), ("Peak memory", result.peak_bytes)]


def told(name: str) -> str:
    """A quantity inside a sentence."""
    return name.lower() if name == "Peak memory" else f"the {name.lower()}"


def _row(name: str, checked: Checked) -> str:
    if checked.verdict == "not_compared":
        return f"not compared: {shown(checked.why)}"
    then, now = (_value(name, value) for value in (checked.then, checked.now))
    of = " a step" if name == "Time per sample" else ""
    return f"{then}{of} then, {now}{of} now: {_change(checked)}"


def _value(name: str, value: Interval | None) -> str:
    if value is None:
        return wording.MISSING
    if name != "Peak memory":
        return wording.interval(value, "ms")
    if value.low == value.high:
        return wording.mib(value.estimate)
    low, high = (wording.mib(end).removesuffix(" MiB") for end in (value.low, value.high))
    return f"{wording.mib(value.estimate)} ({low} to {high})"


def _change(checked: Checked) -> str:
    if checked.verdict == "not_compared":
        return f"not compared: {shown(checked.why)}"
    told = wording.ratio(checked.ratio)
    return f"{told}, not shown to exceed the limit" if checked.verdict == "within_limit" else told


def _smallest(checked: Checked) -> str:
    share = checked.smallest_regression
    return wording.MISSING if share is None else wording.difference(share)


def _phases(result: CheckData) -> list[tuple[str, str, str]]:
    """Parts of a step with their times then and now, the one that grew most first."""
    then, now = result.reference.phases_ms, result.profile.phases_ms
    parts = [part for part in dict.fromkeys((*now, *then)) if now.get(part, 0) > 0 or then.get(part, 0) > 0]
    parts.sort(key=lambda part: then.get(part, 0.0) - now.get(part, 0.0))
    return [(part, _ms(then.get(part)), _ms(now.get(part))) for part in parts]


def _ms(spent: float | None) -> str:
    return wording.MISSING if spent is None else f"{wording.plain(spent)} ms"


def _phase_lines(result: CheckData) -> list[str]:
    return [f"  {phase_words(part):<13} {then:>12} then {now:>12} now" for part, then, now in _phases(result)]


def _next(result: CheckData) -> str:
    if result.verdict == "passed":
        smallest = result.step_ms.smallest_regression
        if smallest is not None and smallest > wording.MOST_SHARE:
            return "run it again while less else runs on this machine: a doubled time of a step could hide."
        return "nothing to do. A longer --budget sees smaller regressions."
    own = result.command[: result.command.index("--")] if "--" in result.command else result.command
    words = ["advisor", "profile", *(["-m"] if "-m" in own else []), result.target.path]
    arguments = ["--", *result.target.args] if result.target.args else []
    return (
        f"`{shlex.join(shown(word) for word in [*words, *arguments])}` shows where the time of a step goes."
    )
