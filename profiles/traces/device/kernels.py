"""What the events of a device do, by the operator that launched them and else by their own name."""

import re
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from advisor.profiles.traces.calls import OPTIMIZER, Calls
from advisor.profiles.traces.equal_rows import alike
from advisor.profiles.traces.flops import LINEAR, NORMALISING, POINTWISE, PRODUCTS, REDUCING, WRITING
from advisor.profiles.traces.nesting import Ints
from advisor.profiles.traces.trace import CATEGORIES

KINDS = (
    "gemm", "convolution", "attention", "normalization", "softmax", "elementwise", "reduction", "indexing",
    "optimizer", "communication", "copy", "triton", "other",
)  # fmt: skip

EXCHANGE = re.compile(
    r"nccl|rccl|msccl|nvshmem|deep_ep|\bep::(intra|inter)node|userbuffers|cross_device|multimem_all|(one|two)_?shot_?all_?reduce"
    r"|all_?reduce_(fusion|prototype)",
    re.IGNORECASE,
)
"""Of libraries of exchange (DeepEP is built into others as ``ep::internode``), of torch's symmetric memory,
and the own ones of inference engines."""

COMPILED = re.compile("triton_")  # what Inductor generates is called so
OPTIMIZING = re.compile(
    r"multi_tensor_apply.*(adam|sgd|lamb|adagrad|rmsprop|novograd|lars)|fused_?(adam|sgd|lamb|adagrad|lion)",
    re.IGNORECASE,
)
SOFTMAXES = {name for name in NORMALISING if "softmax" in name}

INDEXING = frozenset(
    f"aten::{name}"
    for name in (
        "index", "index_select", "index_put_", "_index_put_impl_", "index_add", "index_add_", "index_copy_",
        "index_fill_", "gather", "scatter", "scatter_", "scatter_add", "scatter_add_", "scatter_reduce",
        "scatter_reduce_", "take", "masked_select", "masked_scatter", "nonzero", "embedding",
        "embedding_dense_backward", "_embedding_bag", "cat", "repeat", "repeat_interleave", "roll", "flip",
        "sort", "argsort", "topk", "_unique2", "unique_dim", "searchsorted", "bucketize", "tril", "triu",
    )
)  # fmt: skip
"""Operators that take, put, join or order elements and compute nothing with them."""

BY_OPERATOR = {
    **dict.fromkeys((*PRODUCTS, *LINEAR), "gemm"),
    **dict.fromkeys(NORMALISING - SOFTMAXES, "normalization"),
    **dict.fromkeys(SOFTMAXES, "softmax"),
    **dict.fromkeys(INDEXING, "indexing"),
    **dict.fromkeys(REDUCING, "reduction"),
    **dict.fromkeys(POINTWISE | WRITING, "elementwise"),
}
"""Operators of torch."""

OPERATORS = (
    (r"conv(olution|_transpose)?(\d?d)?(_|$)", "convolution"),
    (r"attention|attn|fmha|(^|_)mha|and_cache|kv_?cache|store_cache", "attention"),
    (r"(batch|layer|group|instance|rms)_?norm", "normalization"),
    (r"gemm|matmul|(^|_)(scaled_|grouped_|int_)*mm(_|$)", "gemm"),
    (r"(?<!rotary_)embedding|splitlookup|permute_?(\dd_|sparse|pooled)|bounds_check_ind", "indexing"),
)
"""Operators of libraries by a part of their name behind the namespace; attention includes its cache, and
lookups of embeddings include what FBGEMM updates of them in backward."""

KERNELS = (
    (r"fprop|dgrad|wgrad|winograd|implicit_(con|gemm)|igemm_(fwd|bwd|wrw)|conv(olve|olution|\dd|_)"
     r"|nchwto|nhwcto|nchw2|nhwc2|batched_transpose_\d|subtensorop", "convolution"),
    (r"attention|attn|fmha|(flash|sage)_(fwd|bwd)|reshape_and_cache|kv_?cache"
     r"|^reduce_segments", "attention"),
    (r"(batch|layer|group|instance|rms)_?norm|rowwisemoments|gammabeta|bn_(fw|bw)_", "normalization"),
    (r"(?<!fb)gemm|cijk_|matmul|nvjet|splitkreduce|cublas|_mm_|(^|\W)bmm_|fused_moe_kernel", "gemm"),
    (r"softmax", "softmax"),
    (r"reduce_kernel|devicereduce|device_reduce", "reduction"),
    (r"(?<!rotary_)embedding|index_?select|indexing_backward|index_elementwise|gather|scatter|catarray"
     r"|radixsort|mergesort|bitonic|linearize_index|bounds_check_indices|permute_(\dd|indices|pooled)"
     r"|topk|moe_?align|routing|count_expert|dispatch_layout|expand_to_fused|fused_mapping|moe_permute"
     r"|finalize_?moe|moe::dev::finalize", "indexing"),
    (r"elementwise|multi_tensor_apply|act_and_mul|rotary|dropout|[gs]elu|silu|swiglu|fillfunctor|quantize"
     r"|(fp8|fp4|int8|group|token|dynamic)_quant|cast_(to|and|back)_|copy_tensor|(^|\W)(batched_)?transpose<",
     "elementwise"),
)  # fmt: skip
"""Names of kernels: CUTLASS, cuBLAS and cuDNN; Tensile's ``Cijk_``, MIOpen's ``igemm_`` and what lays tensors
out for it, CK on ROCm; what routes tokens to experts and back orders rows; a cast to 8 bits with its scales
is one of elements; ``bmm_`` of TensorRT-LLM and ``fused_moe_kernel`` of vLLM multiply experts, whose
``reduce_segments`` puts parts of an attention together."""

MEMCPY, MEMSET = CATEGORIES.index("gpu_memcpy"), CATEGORIES.index("gpu_memset")
_OPERATORS = tuple((re.compile(pattern, re.IGNORECASE), kind) for pattern, kind in OPERATORS)
_KERNELS = tuple((re.compile(pattern, re.IGNORECASE), kind) for pattern, kind in KERNELS)


def kernels_ms(calls: Calls, chosen: Ints) -> tuple[tuple[str, float], ...]:
    """Time of events of a device by kind, per step; they count in full where they overlap.

    Args:
        calls: Of a trace with a device.
        chosen: Positions in ``calls.kernels``.
    """
    spent = dict.fromkeys(KINDS, 0.0)
    for kind, us in _by_kind(calls, chosen):
        spent[kind] += us
    return tuple((kind, calls.per_step_ms(us)) for kind, us in spent.items())


@lru_cache(4096)  # dozens of patterns on names of up to a thousand letters, asked for each name several times
def kind_of(kernel: str, operator: str = "", *, memset: bool = False, updating: bool = False) -> str:
    """What a kernel does.

    Args:
        kernel: Its name.
        operator: That launched it; empty if none is known, as with graphs.
        memset: It fills memory, which says nothing by itself.
        updating: It was launched within an optimizer's step.
    """
    if EXCHANGE.search(kernel):
        return "communication"
    if COMPILED.match(kernel):
        return "triton"
    if updating or OPTIMIZING.search(kernel) or OPTIMIZING.search(operator):
        return "optimizer"
    if operator in BY_OPERATOR:
        return BY_OPERATOR[operator]
    named = _first(_OPERATORS, operator.rpartition("::")[2]) if operator else None
    return named or ("copy" if memset else _first(_KERNELS, kernel) or "other")


def _by_kind(calls: Calls, chosen: Ints) -> Iterator[tuple[str, float]]:
    """Kinds and microseconds of what is alike in name, operator and phase."""
    trace, rows, owner = calls.trace, calls.kernels[chosen], calls.kernel_owner[chosen]
    launch = calls.launched_by[chosen]
    source = np.where(launch >= 0, launch, owner)
    operator = np.where(owner >= 0, calls.name[owner], -1)
    updating = (source >= 0) & (calls.phase[source] == OPTIMIZER)
    category = trace.category[rows]
    kinds = alike(operator, trace.name[rows], updating)
    spent = np.bincount(kinds.group, trace.duration_us[rows])
    for at, us in zip(kinds.first.tolist(), spent.tolist(), strict=True):
        if category[at] == MEMCPY:
            yield "copy", us
            continue
        name = trace.names[operator[at]] if operator[at] >= 0 else ""
        kernel = trace.names[trace.name[rows[at]]]
        yield kind_of(kernel, name, memset=category[at] == MEMSET, updating=bool(updating[at])), us


@lru_cache(4096)
def _first(patterns: tuple[tuple[re.Pattern[str], str], ...], name: str) -> str | None:
    return next((kind for pattern, kind in patterns if pattern.search(name)), None)
