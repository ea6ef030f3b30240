"""What the kernels of a step reach of the device's limits: by kind, by matrix product, and one by one."""

from dataclasses import dataclass
from pathlib import PurePath

from advisor.report.charts.charts import phase_words
from advisor.result import wording
from advisor.result.document import ProfileSummary
from advisor.result.on_device import Kernel
from advisor.result.wording import shown

MOST_KERNELS = 20
BOUNDS = {"arithmetic": "peak arithmetic", "memory": "memory bandwidth"}
MOST_NAME = 72  # of a kernel's name, of which templates make thousands of characters


@dataclass(frozen=True)
class KindRow:
    """Kernels of one kind: their time per step, and what those of known work reach together."""

    name: str
    time: str
    value: float
    share: str
    reached: str


@dataclass(frozen=True)
class ProductRow:
    """Matrix products of one size."""

    op: str
    sizes: str
    dtype: str
    calls: str
    time: str
    value: float
    tflops: str
    reached: str


@dataclass(frozen=True)
class KernelRow:
    """One kernel; ``name`` is short, ``whole`` as the trace holds it."""

    name: str
    whole: str
    kind: str
    op: str
    calls: str
    time: str
    value: float
    tflops: str
    gb_per_s: str
    reached: str
    bound: str
    place: str


@dataclass(frozen=True)
class Kernels:
    """The part of a report about kernels; ``said`` are the sentences above its tables."""

    said: list[str]
    kinds: list[KindRow]
    products: list[ProductRow]
    kernels: list[KernelRow]


def kernels_part(summary: ProfileSummary) -> Kernels | None:
    """Tables of kernels; ``None`` where no device was recorded."""
    kinds = kind_rows(summary)
    if not kinds and not summary.kernels:
        return None
    return Kernels(
        said=sentences(summary),
        kinds=kinds,
        products=[
            ProductRow(
                op=shown(each.op, MOST_NAME),
                sizes=f"{f'{each.batch} x ' if each.batch > 1 else ''}{each.m} x {each.n} x {each.k}",
                dtype=shown(each.dtype, 40),
                calls=_count(each.calls),
                time=f"{wording.plain(each.kernel_us / 1000)} ms",
                value=each.kernel_us,
                tflops=wording.plain(each.tflops),
                reached=_share(each.roofline),
            )
            for each in summary.products
        ],
        kernels=[_row(each) for each in summary.kernels[:MOST_KERNELS]],
    )


def sentences(summary: ProfileSummary) -> list[str]:
    """What the limits are, and what the whole step reaches of them."""
    limits = f"the {shown(summary.rates_from)}" if summary.rates_from else "limits measured on this device"
    said = []
    if summary.mfu is not None:
        said.append(
            f"The arithmetic of the step takes {wording.share_of(summary.mfu, 1.0)} of it at peak (MFU)."
        )
    if summary.roofline_by_kind:
        said.append(f"Shares are of the nearer limit, peak arithmetic or memory bandwidth, by {limits}.")
    return said


def kind_rows(summary: ProfileSummary) -> list[KindRow]:
    """Kinds of kernels that take time, the longest first."""
    total = sum(summary.kernels_ms.values())
    return [
        KindRow(
            name=phase_words(kind),
            time=f"{wording.plain(ms)} ms",
            value=ms,
            share=wording.share_of(ms, total),
            reached=_share(summary.roofline_by_kind.get(kind)),
        )
        for kind, ms in sorted(summary.kernels_ms.items(), key=lambda item: -item[1])
        if ms > 0
    ]


def short_name(kernel: str) -> str:
    """A kernel's name without what says nothing: ``void`` before it."""
    return shown(kernel.removeprefix("void "), MOST_NAME)


def short_place(place: str | None) -> str:
    """File and line with the last folder."""
    return shown("/".join(PurePath(place or "").parts[-2:]), 80)


def _row(each: Kernel) -> KernelRow:
    return KernelRow(
        name=short_name(each.name),
        whole=shown(each.name, 300),
        kind=phase_words(each.kind),
        op=shown(each.op, MOST_NAME),
        calls=_count(each.calls),
        time=f"{wording.plain(each.us / 1000)} ms",
        value=each.us,
        tflops="" if each.tflops is None else wording.plain(each.tflops),
        gb_per_s="" if each.gb_per_s is None else wording.plain(each.gb_per_s),
        reached=_share(each.roofline),
        bound=BOUNDS[each.bound] if each.bound else "",
        place=short_place(each.location),
    )


def _share(value: float | None) -> str:
    return "" if value is None else wording.share_of(value, 1.0)


def _count(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
