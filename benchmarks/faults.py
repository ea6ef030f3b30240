"""Injects every fault of the catalogue and writes what came of it: benchmarks/results/faults.json and .md.

`python benchmarks/faults.py` runs all of them (about an hour on two cores); with names of cases (`F08 F25`)
only those are run again, and the others keep what was found before.
"""

import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
sys.path.insert(0, str(ROOT / "tests" / "faults"))

from catalogue import CASES, Case  # noqa: E402


@dataclass(frozen=True)
class Ran:
    """One test function with all its parameters: how many of them ended how."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    reason: str = ""

    def and_then(self, other: "Ran") -> "Ran":
        """Both together."""
        return Ran(
            self.passed + other.passed,
            self.failed + other.failed,
            self.skipped + other.skipped,
            self.seconds + other.seconds,
            self.reason or other.reason,
        )

    @property
    def outcome(self) -> str:
        """In words."""
        if self.failed:
            return f"FAILED ({self.failed} of {self.passed + self.failed})"
        if self.passed:
            return "passed"
        return f"skipped: {self.reason}" if self.skipped else "not run"


def run(tests: Sequence[str]) -> dict[str, Ran]:
    """Run test functions, each named by file and function below ``tests``."""
    if not tests:  # pytest would run all there are
        return {}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-m", "faults or not faults", f"--junitxml={report}"]
        subprocess.run([*command, *(f"tests/{test}" for test in tests)], cwd=ROOT, check=False)
        return read(report)


def read(report: Path) -> dict[str, Ran]:
    """What a JUnit report says, by file and function."""
    found: dict[str, Ran] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        file = case.get("classname", "").removeprefix("tests.").replace(".", "/")
        name = f"{file}.py::{case.get('name', '').partition('[')[0]}"
        found[name] = found.get(name, Ran()).and_then(_one(case))
    return found


def _one(case: ElementTree.Element) -> Ran:
    seconds = float(case.get("time", 0))
    if case.find("failure") is not None or case.find("error") is not None:
        return Ran(failed=1, seconds=seconds)
    skipped = case.find("skipped")
    if skipped is not None:
        return Ran(skipped=1, seconds=seconds, reason=skipped.get("message", ""))
    return Ran(passed=1, seconds=seconds)


def row(case: Case, ran: dict[str, Ran]) -> dict[str, Any]:
    """A line of the table."""
    every = Ran()
    for test in case.tests:
        every = every.and_then(ran.get(test, Ran()))
    missing = [test for test in case.tests if test not in ran]
    outcome = "not injected" if not case.tests else "not run" if missing else every.outcome
    return {**asdict(case), "outcome": outcome, "seconds": round(every.seconds, 1)}


def markdown(rows: Sequence[dict[str, Any]], about: str) -> str:
    """The table."""
    return "\n".join(["# Injected faults", "", about, "", *_lines(rows), ""])


def _lines(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield "| case | injection | expected | outcome | seconds | remark |"
    yield "|---|---|---|---|--:|---|"
    for each in rows:
        cells = (each[key] for key in ("name", "injection", "expected", "outcome", "seconds", "reason"))
        yield "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def main(wanted: Sequence[str]) -> int:
    """Run the cases and write the table; 1 when one failed."""
    unknown = set(wanted) - {case.name for case in CASES}
    if unknown:
        sys.exit(f"no such case: {', '.join(sorted(unknown))}")
    file = RESULTS / "faults.json"
    cases = [case for case in CASES if not wanted or case.name in wanted]
    ran = run(list(dict.fromkeys(test for case in cases for test in case.tests)))
    new = {case.name: row(case, ran) for case in cases}
    earlier = {each["name"]: each for each in json.loads(file.read_text())["cases"]} if file.exists() else {}
    rows = [new.get(case.name) or earlier.get(case.name) or row(case, {}) for case in CASES]
    about = {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "system": platform.platform(),
        "python": platform.python_version(),
    }
    file.write_text(json.dumps({**about, "cases": rows}, indent=1) + "\n")
    system = f"{about['system']}, Python {about['python']}"
    told = f"Made by `make faults`, the last rows on {about['made']}, {system}."
    file.with_suffix(".md").write_text(markdown(rows, told))
    return int(any(each["outcome"].startswith("FAILED") for each in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
