"""The fields of a profile of a device: documented, and in the schema."""

import re
from pathlib import Path

from advisor.result.document import ProfileSummary
from advisor.result.on_device import Collective, Kernel
from advisor.result.trace_comparison import TraceComparison

TEXT = (Path(__file__).parents[2] / "docs" / "result.md").read_text()
OF_A_DEVICE = TEXT.split("where there is a device")[1].split("\n## ")[0]


def test_every_field_that_is_documented_exists() -> None:
    rows = re.findall(r"^\| `(\w+)", OF_A_DEVICE, re.MULTILINE)
    assert set(rows) <= set(ProfileSummary.model_fields) and len(rows) >= 7


def test_every_field_of_kernels_exchanges_and_comparisons_is_documented() -> None:
    for record in (Kernel, Collective, TraceComparison):
        fields = set(record.model_fields) - {"schema_version", "advisor_version"}
        assert {name for name in fields if f"`{name}`" not in OF_A_DEVICE} == set()
