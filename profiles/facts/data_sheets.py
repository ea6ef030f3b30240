"""What GPUs can do at most by the data sheets of their makers: a device that a trace names is not here."""

import re
from dataclasses import dataclass

from advisor.profiles.facts.machine import Gpu
from advisor.profiles.facts.rates import Rates

TYPES = ("float64", "float32", "float32_medium", "float16", "bfloat16", "float8")
"""Columns of ``DataSheet.tflops``; ``float32_medium`` is TF32, as in ``Rates``."""

FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
MEMORY_LEFT = 0.9  # of the memory sold, at least, is what a program sees: ECC and the driver take the rest
GIB = 2**30


@dataclass(frozen=True)
class DataSheet:
    """One model.

    ``name`` is how reports call it, ``pattern`` finds it in the name that the driver gives, ``memory_gib`` is
    the memory sold. ``tflops`` are the highest dense rates of matrix products at the boost clock in the order
    of ``TYPES``, sparsity not counted, those of 16 bits with sums in float32; ``None`` where the source has
    none. ``memory_gb_per_s`` is memory bandwidth, ``link_gb_per_s`` that of all links to other GPUs together,
    in one direction. A package that shows as two devices (MI250X) stands here as one of them.
    ``source`` is where the rates and the bandwidth stand.
    """

    name: str
    pattern: str
    capability: tuple[int, int]
    memory_gib: int
    tflops: tuple[float | None, ...]
    memory_gb_per_s: float
    link_gb_per_s: float | None
    source: str

    def rates(self) -> Rates:
        """The limits as everything else here reads them."""
        found = dict(zip(TYPES, self.tflops, strict=True))
        eight = found.pop("float8")
        found |= dict.fromkeys(FLOAT8, eight)
        return Rates(
            matmul=tuple((name, 1e12 * rate) for name, rate in found.items() if rate),
            memory_sequential=1e9 * self.memory_gb_per_s,
            link=None if self.link_gb_per_s is None else 1e9 * self.link_gb_per_s,
            source=f"data sheet of the {self.name}",
        )


_NVIDIA = "https://www.nvidia.com"
_CENTRE = f"{_NVIDIA}/en-us/data-center"
_PDF = f"{_NVIDIA}/content/dam/en-zz/Solutions"
_IMAGES = "https://images.nvidia.com"
_HALF = "half of the rates with sparsity"
_BLACKWELL = f"https://nvdam.widen.net/s/wwnsxrhm2w/blackwell-datasheet-3384703, {_HALF}"
_GH200 = "https://nvdam.widen.net/s/rrgqqnpbz8/grace-datasheet-gh200-grace-hopper-superchip-3773000"
_HOPPER = f"{_CENTRE}/h100, {_HALF}"
_H200 = f"{_CENTRE}/h200, {_HALF}"
_PHILISUN = "https://www.philisun.com/technical-analysis"
_B300 = "https://glennklockwood.com/garden/processors/B300, of NVIDIA's figures of the HGX B300"
_GB300 = "https://verda.com/blog/gb300-nvl72-architecture, of NVIDIA's figures of the GB300 NVL72"
_A100 = f"{_CENTRE}/a100"
_A800 = f"https://hmc-tech.com/gpu/nvidia-a800-vs-nvidia-t40 (rates); memory as of the A100: {_A100}"
_GA102 = f"{_NVIDIA}/content/PDF/nvidia-ampere-ga-102-gpu-architecture-whitepaper-v2.pdf, appendices A and C"
_GEFORCE = f"{_IMAGES}/aem-dam/Solutions/geforce"
_ADA = f"{_GEFORCE}/ada/nvidia-ada-gpu-architecture.pdf, appendix A"
_GB202 = f"{_GEFORCE}/blackwell/nvidia-rtx-blackwell-gpu-architecture.pdf, appendix A"
_V100 = f"{_IMAGES}/content/technologies/volta/pdf/volta-v100-datasheet-update-us-1165301-r5.pdf"
_AWS_A10G = "https://d1.awsstatic.com/product-marketing/ec2/NVIDIA_AWS_A10G_DataSheet_FINAL_02_17_2022.pdf"
_CDNA3 = "https://www.amd.com/content/dam/amd/en/documents/instinct-tech-docs/white-papers/amd-cdna-3-white-paper.pdf"
_ROCM = "https://rocm.docs.amd.com/en/latest/reference/gpu-arch"
_MAX = "https://docs.tacc.utexas.edu/hpc/stampede3; Intel's specifications of its memory and clock"

DATA_SHEETS = (
    DataSheet("NVIDIA GB200", r"\bGB200\b", (10, 0), 186, (40, 80, 1250, 2500, 2500, 5000), 8000, 900,
              _BLACKWELL),
    DataSheet("NVIDIA GB300", r"\bGB300\b", (10, 3), 279, (None, 80, 1250, 2500, 2500, 5000), 8000, 900,
              _GB300),
    DataSheet("NVIDIA B300", r"\bB300\b", (10, 3), 288, (1.25, 75, 1125, 2250, 2250, 4500), 8000, 900, _B300),
    DataSheet("NVIDIA B200", r"\bB200\b", (10, 0), 180, (37, 75, 1100, 2250, 2250, 4500), 7700, 900,
              _BLACKWELL),
    DataSheet("NVIDIA GH200 144GB", r"\bGH200 144G", (9, 0), 144, (67, 67, 494.7, 989.4, 989.4, 1978.9),
              4900, 450, _GH200),
    DataSheet("NVIDIA GH200 96GB", r"\bGH200\b", (9, 0), 96, (67, 67, 494.7, 989.4, 989.4, 1978.9), 4000,
              450, _GH200),
    DataSheet("NVIDIA H200 NVL", r"\bH200 NVL\b", (9, 0), 141, (60, 60, 417.5, 835.5, 835.5, 1670.5), 4800,
              450, _H200),
    DataSheet("NVIDIA H200 SXM", r"\bH200\b", (9, 0), 141, (67, 67, 494.7, 989.4, 989.4, 1978.9), 4800, 450,
              _H200),
    DataSheet("NVIDIA H800 SXM", r"\bH800\b(?!.*PCIe)", (9, 0), 80,
              (1, 67, 494.7, 989.4, 989.4, 1978.9), 3350, 200,
              f"{_PHILISUN}: an H100 SXM but for float64 and links"),
    DataSheet("NVIDIA H100 NVL", r"\bH100 NVL\b", (9, 0), 94, (60, 60, 417.5, 835.5, 835.5, 1670.5), 3900,
              300, _HOPPER),
    DataSheet("NVIDIA H100 PCIe", r"\bH100 PCIe\b", (9, 0), 80, (51, 51, 378, 756, 756, 1513), 2000, 300,
              f"https://archive-lib.hpctech.co.jp/gpuproduct/nvidia-h100.html, {_HALF}"),
    DataSheet("NVIDIA H100 SXM", r"\bH100\b", (9, 0), 80, (67, 67, 494.7, 989.4, 989.4, 1978.9), 3350, 450,
              _HOPPER),
    DataSheet("NVIDIA A800 80GB SXM", r"\bA800\b.*SXM", (8, 0), 80, (19.5, 19.5, 156, 312, 312, None), 2039,
              200, _A800),
    DataSheet("NVIDIA A100 80GB PCIe", r"\bA100.*PCIe", (8, 0), 80, (19.5, 19.5, 156, 312, 312, None), 1935,
              300, _A100),
    DataSheet("NVIDIA A100 80GB SXM", r"\bA100\b", (8, 0), 80, (19.5, 19.5, 156, 312, 312, None), 2039, 300,
              _A100),
    DataSheet("NVIDIA A100 40GB", r"\bA100\b", (8, 0), 40, (19.5, 19.5, 156, 312, 312, None), 1555, 300,
              "https://developer.nvidia.com/blog/nvidia-ampere-architecture-in-depth"),
    DataSheet("NVIDIA A30", r"\bA30\b", (8, 0), 24, (10.3, 10.3, 82, 165, 165, None), 933, 100,
              f"{_PDF}/data-center/products/a30-gpu/pdf/a30-datasheet.pdf"),
    DataSheet("NVIDIA A40", r"\bA40\b", (8, 6), 48, (None, 37.4, 74.8, 149.7, 149.7, None), 696, 56.25,
              _GA102),
    DataSheet("NVIDIA A10G", r"\bA10G\b", (8, 6), 24, (None, 35, 35, 70, 70, None), 600, None,
              _AWS_A10G),
    DataSheet("NVIDIA A10", r"\bA10\b", (8, 6), 24, (None, 31.2, 62.5, 125, 125, None), 600, None,
              f"{_PDF}/Data-Center/a10/pdf/a10-datasheet.pdf"),
    DataSheet("NVIDIA RTX A6000", r"\bRTX A6000\b", (8, 6), 48, (None, 38.7, 77.4, 154.8, 154.8, None), 768,
              56.25, _GA102),
    DataSheet("NVIDIA GeForce RTX 3090", r"\bRTX 3090\b(?! Ti)", (8, 6), 24,
              (None, 35.6, 35.6, 71, 71, None), 936, 56.25, _GA102),
    DataSheet("NVIDIA L4", r"\bL4\b", (8, 9), 24, (None, 30.3, 60, 121, 121, 242.5), 300, None,
              f"{_CENTRE}/l4, {_HALF}"),
    DataSheet("NVIDIA L40S", r"\bL40S\b", (8, 9), 48, (None, 91.6, 183, 362, 362, 733), 864, None,
              f"{_CENTRE}/l40s, {_HALF}"),
    DataSheet("NVIDIA L40", r"\bL40\b", (8, 9), 48, (None, 90.5, 90.5, 181, 181, 362), 864, None,
              f"{_CENTRE}/l40, {_HALF}"),
    DataSheet("NVIDIA RTX 6000 Ada", r"\bRTX 6000 Ada\b", (8, 9), 48,
              (None, 91.1, 182.1, 364.2, 364.2, 728.5), 960, None,
              f"{_NVIDIA}/en-us/design-visualization/rtx-6000, which gives FP8 with sparsity"),
    DataSheet("NVIDIA GeForce RTX 4090", r"\bRTX 4090\b(?! D)", (8, 9), 24,
              (None, 82.6, 82.6, 165.2, 165.2, 330.3), 1008, None, _ADA),
    DataSheet("NVIDIA GeForce RTX 5090", r"\bRTX 5090\b(?! D)", (12, 0), 32,
              (None, 104.8, 104.8, 209.5, 209.5, 419), 1792, None,
              _GB202),
    DataSheet("NVIDIA T4", r"\bT4\b", (7, 5), 16, (None, 8.1, None, 65, None, None), 320, None,
              f"{_PDF}/Data-Center/tesla-t4/t4-tensor-core-datasheet-951643.pdf"),
    DataSheet("NVIDIA V100 PCIe", r"\bV100.PCIe", (7, 0), 32, (7, 14, None, 112, None, None), 900, None,
              _V100),
    DataSheet("NVIDIA V100 SXM2", r"\bV100.(SXM|DGXS)", (7, 0), 32, (7.8, 15.7, None, 125, None, None), 900,
              150, _V100),
    DataSheet("AMD Instinct MI355X", r"\bMI355X\b", (9, 5), 288, (78.6, 157.3, None, 2516.6, 2516.6, 5033.2),
              8000, 538, f"{_ROCM}/mi350.html"),
    DataSheet("AMD Instinct MI350X", r"\bMI350X\b", (9, 5), 288, (72.1, 144.2, None, 2306.9, 2306.9, 4613.7),
              8000, 538, f"{_ROCM}/mi350.html"),
    DataSheet("AMD Instinct MI325X", r"\bMI325X\b", (9, 4), 256,
              (163.4, 163.4, 653.7, 1307.4, 1307.4, 2614.9), 6000, 448,
              _CDNA3),
    DataSheet("AMD Instinct MI300X", r"\bMI300X\b", (9, 4), 192,
              (163.4, 163.4, 653.7, 1307.4, 1307.4, 2614.9), 5300, 448,
              _CDNA3),
    DataSheet("AMD Instinct MI300A", r"\bMI300A\b", (9, 4), 128,
              (122.6, 122.6, 490.3, 980.6, 980.6, 1961.2), 5300, None,
              _CDNA3),
    DataSheet("AMD Instinct MI250X", r"\bMI250X\b", (9, 0), 64, (47.9, 47.9, None, 191.5, 191.5, None), 1638,
              None, f"{_CDNA3}, endnotes MI300-11 and 14, per compute die"),
    DataSheet("AMD Instinct MI250", r"\bMI250\b", (9, 0), 64, (45.3, 45.3, None, 181, 181, None), 1638, None,
              f"{_ROCM}/mi250.html, per compute die"),
    DataSheet("AMD Instinct MI210", r"\bMI210\b", (9, 0), 64, (45.3, 45.3, None, 181, 181, None), 1638, None,
              "https://www.anandtech.com/show/17326, one die of an MI250"),
    DataSheet("AMD Instinct MI100", r"\bMI100\b", (9, 0), 32, (11.5, 46.1, None, 184.6, 92.3, None), 1229,
              None, f"{_ROCM}/mi100.html"),
    DataSheet("Intel Data Center GPU Max 1550", r"\bGPU Max 1550\b", (12, 0), 128,
              (52, 52, None, 832, 832, None), 3277, None, _MAX),
    DataSheet("Intel Data Center GPU Max 1550, one stack", r"\bGPU Max 1550\b", (12, 0), 64,
              (26, 26, None, 416, 416, None), 1638, None, f"{_MAX}, half of it"),
)  # fmt: skip
"""First come what a shorter pattern further down would find as well."""


def data_sheet(gpu: Gpu) -> DataSheet | None:
    """The data sheet of a device by its name, ``None`` where none is here.

    Where several have the name, the memory decides. A device whose name is empty, as some drivers of AMD
    leave it, is told by capability and memory, if only one model has them.
    """
    if not gpu.name.strip():
        alike = [each for each in DATA_SHEETS if each.capability == gpu.capability and _fits(each, gpu)]
        return alike[0] if len(alike) == 1 else None
    named = [each for each in DATA_SHEETS if re.search(each.pattern, gpu.name, re.IGNORECASE)]
    return next((each for each in named if _fits(each, gpu)), named[0] if named else None)


def _fits(sheet: DataSheet, gpu: Gpu) -> bool:
    return MEMORY_LEFT * sheet.memory_gib * GIB <= gpu.memory_bytes <= 1.02 * sheet.memory_gib * GIB
