"""A picture of a report, as a browser shows its top.

The picture in ``docs/`` is of a real run:

    advisor tune examples/slow_storage.py --knob num_workers=4 --budget 2m
    python -m benchmarks.screenshot advisor-report docs/report.png

Needs chromium. The report is rendered anew from ``result.json``, so that the picture shows the templates as
they are.
"""

import argparse
import shutil
import subprocess
import tempfile
from pathlib import Path

from advisor.cli.found import read_result_file
from advisor.report.files import render_html

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SIZE = (1000, 1180)
LARGEST = 200_000  # bytes: it is fetched with the repository
BROWSER_S = 120


def main() -> None:
    """Take the picture and say how large it is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", help="a result.json, or the folder of a report")
    parser.add_argument("picture", type=Path)
    parser.add_argument("--size", nargs=2, type=int, default=SIZE, metavar=("WIDTH", "HEIGHT"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "report.html")
        page.write_text(render_html(read_result_file(options.result)), encoding="utf-8")
        take(page, options.picture, options.size[0], options.size[1])
    size = options.picture.stat().st_size
    print(f"{options.picture}: {size:,} bytes")
    if size > LARGEST:
        raise SystemExit(f"larger than {LARGEST:,} bytes: use a smaller --size")


def take(page: Path, picture: Path, width: int, height: int) -> None:
    """Let a browser without a window draw the top of a page."""
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        raise SystemExit(f"none of {', '.join(BROWSERS)} is installed")
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run(
            [
                browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                f"--user-data-dir={profile}", f"--window-size={width},{height}",
                f"--screenshot={picture.absolute()}", page.absolute().as_uri(),
            ],
            check=True, capture_output=True, timeout=BROWSER_S,
        )  # fmt: skip


if __name__ == "__main__":
    main()
