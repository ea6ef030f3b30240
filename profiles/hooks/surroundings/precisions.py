"""In which precision float32 products are computed, by torch's own words."""

PRECISION_OF_BACKEND = {"ieee": "highest", "tf32": "high", "bf16": "medium"}


def conv_precision() -> str:
    """torch's own word for how convolutions of float32 are computed on CUDA: ``tf32`` or ``ieee``."""
    import torch

    found = torch._C._get_fp32_precision_getter("cuda", "conv")
    return "tf32" if found == "tf32" else "ieee"


def matmul_precision() -> str:
    """``highest``, ``high`` or ``medium``, whichever of torch's two interfaces set it."""
    import torch

    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:  # the program uses the newer interface, which the older one refuses to mix with
        precision = torch.backends.cuda.matmul.fp32_precision
        return PRECISION_OF_BACKEND.get(precision, "highest")
