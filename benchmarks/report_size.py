"""Size of reports, and how fast a browser opens them and sorts their tables.

    python benchmarks/report_size.py --out benchmarks/results/report_size.json

For reports without trials, of 200 and of 5000: bytes of report.html and report.md, seconds to render, and
with a Chromium and Playwright on this machine the milliseconds until the page is loaded and until its
table of trials is sorted and laid out: the table of 2000 rows as it opens (its first 200 shown) and with
all of them shown. The median of several. Wants a quiet machine.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from conditions import conditions

from advisor.report import files

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
BUDGETS = {"empty": 60_000, "200 trials": 400_000, "5000 trials": 1_500_000}
LOAD = "performance.getEntriesByType('navigation')[0].loadEventEnd"
SORT = """async all => {
  const table = document.querySelector('table[data-filters~=stage]');
  if (all) document.querySelector('section[aria-labelledby=trials] .scroll + button').click();
  table.scrollIntoView();
  await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
  const start = performance.now();
  table.querySelector('th:nth-child(5) button').click();
  document.body.offsetHeight;
  return performance.now() - start; }"""


def main() -> None:
    """Measure, print and write."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--out", type=Path, help="where the numbers are written as JSON")
    options.add_argument("--repeat", type=int, default=7, help="times each page is opened")
    given = options.parse_args()
    found = {kind: {**sizes(kind), **times(kind, given.repeat)} for kind in BUDGETS}
    for kind, numbers in found.items():
        print(f"{kind}: " + ", ".join(f"{name} {value}" for name, value in numbers.items()))
    if given.out is not None:
        given.out.write_text(json.dumps({"conditions": conditions(), "reports": found}, indent=2) + "\n")


def sizes(kind: str) -> dict[str, Any]:
    """Bytes of a report beside its budget, and how long it takes to render."""
    from report_pages import KINDS

    result = KINDS[kind]()
    begun = time.perf_counter()
    html = files.render_html(result)
    return {
        "html_bytes": len(html.encode()),
        "budget_bytes": BUDGETS[kind],
        "render_s": round(time.perf_counter() - begun, 3),
        "markdown_bytes": len(files.render_markdown(result).encode()),
    }


def times(kind: str, repeat: int) -> dict[str, Any]:
    """Median milliseconds to load and to sort; empty without a browser."""
    from browser import BROWSER, browser_of, opened
    from report_pages import write

    if BROWSER is None:
        return {}
    loads, firsts, wholes = [], [], []
    with tempfile.TemporaryDirectory() as folder, browser_of() as browser:
        path = write(kind, Path(folder))
        for _ in range(repeat):
            with opened(browser, path) as seen:
                loads.append(seen.page.evaluate(LOAD))
                if kind != "empty":
                    firsts.append(seen.page.evaluate(SORT, False))
                if kind == "5000 trials":
                    wholes.append(seen.page.evaluate(SORT, True))
    timed = {"load_ms": loads, "sort_ms": firsts, "sort_all_ms": wholes}
    return {name: round(statistics.median(values), 1) for name, values in timed.items() if values}


if __name__ == "__main__":
    main()
