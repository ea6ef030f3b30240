"""A quantised ONNX file whose integer products are computed in floating point: what its kernels should give.

A file with pairs of QuantizeLinear and DequantizeLinear is that already when it is run without optimization.
"""

from pathlib import Path
from typing import Any

from advisor.tuners.mechanisms.forms.packages import needed

INTEGER = {"MatMulInteger": "MatMul", "ConvInteger": "Conv"}


def in_floating_point(path: Path) -> Path | None:
    """A file beside ``path``; ``None`` if that has products which are known for integers only."""
    onnx: Any = needed("onnx")
    model = onnx.load(str(path))
    kinds = {node.op_type for node in model.graph.node}
    if "DequantizeLinear" in kinds and not kinds & INTEGER.keys():
        return path
    if any("Integer" in kind or kind.startswith("DynamicQuantize") for kind in kinds - OWN):
        return None
    nodes = [part for node in model.graph.node for part in _floating(onnx, node)]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    written = path.with_name(f"{path.stem}-reference.onnx")
    onnx.save(model, str(written))
    return written


OWN = frozenset({*INTEGER, "DynamicQuantizeLinear"})


def _floating(onnx: Any, node: Any) -> list[Any]:
    """A product of integers less their zero points in double precision, where it is exact."""
    if node.op_type not in INTEGER:
        return [node]
    wide = onnx.TensorProto.DOUBLE if node.op_type == "MatMulInteger" else onnx.TensorProto.FLOAT
    made, factors = [], []
    for place in (0, 1):
        values = f"{node.output[0]}_wide_{place}"
        made.append(onnx.helper.make_node("Cast", [node.input[place]], [values], to=wide))
        if len(node.input) > place + 2 and node.input[place + 2]:
            zero, less = f"{values}_zero", f"{values}_less"
            made.append(onnx.helper.make_node("Cast", [node.input[place + 2]], [zero], to=wide))
            made.append(onnx.helper.make_node("Sub", [values, zero], [less]))
            values = less
        factors.append(values)
    product, rounded = f"{node.output[0]}_product", f"{node.output[0]}_rounded"
    product_node = onnx.helper.make_node(INTEGER[node.op_type], factors, [product])
    product_node.attribute.extend(node.attribute)
    return [
        *made,
        product_node,
        onnx.helper.make_node("Round", [product], [rounded]),
        onnx.helper.make_node("Cast", [rounded], [node.output[0]], to=onnx.TensorProto.INT32),
    ]
