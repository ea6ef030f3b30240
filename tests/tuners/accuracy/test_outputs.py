from collections import namedtuple

import numpy as np
import torch

from advisor.tuners.accuracy.outputs import flattened


def test_leaves_are_named_by_where_they_stand() -> None:
    pair = namedtuple("pair", "boxes label")
    output = {"found": [pair(torch.ones(2, 4), "cat")], "count": 1}
    leaves = flattened(output)
    assert {path: leaf.dtype for path, leaf in leaves.items()} == {
        "found.0.0": "float32", "found.0.1": "str", "count": "int64",
    }  # fmt: skip
    assert leaves["found.0.0"].values.shape == (2, 4)


def test_a_bare_tensor_has_an_empty_path_and_keeps_its_own_name_of_a_dtype() -> None:
    leaf = flattened(torch.tensor([1.5, 2.0], dtype=torch.bfloat16))[""]
    assert leaf.dtype == "bfloat16" and leaf.values.tolist() == [1.5, 2.0]


def test_a_leaf_is_a_copy() -> None:
    tensor = torch.zeros(3)
    leaf = flattened(tensor)[""]
    tensor.add_(1)
    assert np.array_equal(leaf.values, np.zeros(3))


def test_what_is_no_number_is_part_of_the_structure() -> None:
    assert flattened((None,))["0"].dtype == "NoneType"
