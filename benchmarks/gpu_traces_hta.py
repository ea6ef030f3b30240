"""Holistic Trace Analysis over one trace, beside ours: breakdown, CPU time, memory.

Both run in processes of their own. Theirs is asked for the whole trace: by default it leaves out the last
step.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MEASURED = """
import json, resource, sys, time
path = sys.argv[1]
{imports}
began = time.process_time()
{work}
spent = time.process_time() - began
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print("\\n" + json.dumps({{"found": found, "cpu_s": spent, "peak_mib": peak}}))
"""
OURS = (
    "from pathlib import Path\nfrom advisor.runs.profile_traces import profile_traces",
    """
result = profile_traces([Path(path)], ("profile",)).profile
steps = result.recording.steps
spent = {name: ms * steps for name, ms in result.device_ms.items()}
exchanged = result.kernels_ms["communication"] * steps
found = {
    "busy and idle": spent["total"], "idle": spent["idle"], "computing": spent["computing"],
    "other than computing": spent["exposed_communication"] + spent["exposed_copies"],
    "communication overlapped, %": 100 * (1 - spent["exposed_communication"] / exchanged),
}
""",
)
THEIRS = (
    "import os\nfrom hta.trace_analysis import TraceAnalysis",
    """
folder = os.path.dirname(path)
seen = TraceAnalysis(trace_files={0: path}, trace_dir=folder, include_last_profiler_step=True)
row = seen.get_temporal_breakdown(visualize=False).iloc[0]
overlap = seen.get_comm_comp_overlap(visualize=False).iloc[0]
found = {
    "busy and idle": float(row["kernel_time(us)"]) / 1000, "idle": float(row["idle_time(us)"]) / 1000,
    "computing": float(row["compute_time(us)"]) / 1000,
    "other than computing": float(row["non_compute_time(us)"]) / 1000,
    "communication overlapped, %": float(overlap["comp_comm_overlap_pctg"]),
}
seen.get_gpu_kernel_breakdown(visualize=False)
seen.get_idle_time_breakdown(ranks=[0], visualize=False)
""",
)


def beside_hta(trace: Path, python: str) -> Iterator[str]:
    """Lines of Markdown: what both say of one trace, and what it took.

    Args:
        trace: With exchanges between ranks.
        python: The interpreter of an environment that holds HolisticTraceAnalysis.
    """
    ours, theirs = _measured(sys.executable, OURS, trace), _measured(python, THEIRS, trace)
    yield f"\n## {trace.name}, beside Holistic Trace Analysis\n"
    yield "| ms of the whole trace | ours | HTA |\n|---|---|---|"
    for name, value in ours["found"].items():
        yield f"| {name} | {value:.3f} | {theirs['found'][name]:.3f} |"
    for name in ("cpu_s", "peak_mib"):
        yield f"| {name} | {ours[name]:.2f} | {theirs[name]:.2f} |"
    yield (
        "\nTheirs counts filling memory as no computing, ours does. CPU time is without imports; ours is of "
        "the whole profile with every rule, theirs of reading, breakdowns, kernels and idle time."
    )


def _measured(python: str, code: tuple[str, str], trace: Path) -> dict[str, Any]:
    script = MEASURED.format(imports=code[0], work=code[1])
    done = subprocess.run([python, "-c", script, str(trace)], capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found
