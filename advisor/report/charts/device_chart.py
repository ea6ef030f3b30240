"""A step as the device spent it: what it did, and what it waited for where it did nothing."""

from advisor.report.charts.charts import Chart
from advisor.report.charts.step_chart import step_bar
from advisor.result.document import ProfileSummary

DOING = ("computing", "exposed_communication", "exposed_copies")
WAITING = {
    "launch": "idle_until_a_launch",
    "input": "idle_until_data_came",
    "synchronization": "idle_after_a_synchronisation",
    "after_last_kernel": "idle_after_the_last_kernel",
    "starting": "idle_while_the_runtime_started",
    "before_recording": "busy_with_what_was_launched_before",
    "device": "idle_though_launched",
    "other": "idle",
}
"""Names of a picture's parts for what a device waited for."""


def device_parts(profile: ProfileSummary) -> dict[str, float]:
    """Milliseconds of one step by what the device did or waited for; empty without a device."""
    if not profile.device_ms:
        return {}
    doing = {name: profile.device_ms.get(name, 0.0) for name in DOING}
    waited = {name: profile.idle_ms[cause] for cause, name in WAITING.items() if cause in profile.idle_ms}
    return doing | (waited or {"idle": profile.device_ms.get("idle", 0.0)})


def device_bar(name: str, profile: ProfileSummary) -> Chart | None:
    """The bar of one step on the device, ``None`` without one; ``name`` is put before every id in it."""
    parts = device_parts(profile)
    return step_bar(name, parts, title="One step as the device spent it, by part") if parts else None
