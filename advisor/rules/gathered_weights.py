"""Weights of experts are copied for each token that they are multiplied with."""

from dataclasses import dataclass

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.derived.eligibility import share_of_step, sides, spent_ms
from advisor.profiles.facts.profile import Profile
from advisor.profiles.facts.recorded import OpCost, Window

GATHERS = ("aten::index", "aten::index_select")
SCATTERS = ("aten::_index_put_impl_", "aten::index_add_")
"""What adds the gradients of the copies up, one after the other."""

PRODUCTS = ("aten::bmm", "aten::baddbmm")
FLOATING = ("float32", "bfloat16", "float16", "float64")
FEW_ON_DEVICE = 2**9  # tokens, up to which copies can be the faster form on a GPU (transformers #43126)


@dataclass(frozen=True)
class _Gathered:
    """A stack of matrices, what copies its entries, and batched products with as many of the copies."""

    entries: int
    gathers: tuple[OpCost, ...]
    scatters: tuple[OpCost, ...]
    products: tuple[tuple[OpCost, int], ...]

    @property
    def copies(self) -> int:
        """The most that are made at once."""
        return max((number for _, number in self.products), default=0)

    @property
    def again(self) -> float:
        """Share (0 to 1) of the copies that are not the first of an entry."""
        calls = [(product.calls, number) for product, number in self.products]
        repeated = sum(times * max(0, number - self.entries) for times, number in calls)
        return repeated / sum(times * number for times, number in calls)


class GatheredWeights(Rule):
    """A mixture of experts takes `w[experts]`: a whole matrix is copied for each token, to multiply one row.

    With more tokens than experts the same matrices are copied again and again, and each product reads its
    own copy. In training, the gradients of all copies are added up as well. Sort tokens by their expert, and
    multiply those of one expert at once: what moves then are rows, and each matrix is read once.
    `torch.nn.functional.grouped_mm` does it in one call. With no more tokens than experts, as where one token
    after the other is written, copies are the usual form and nothing is said of them; nor on a GPU up to 512,
    where they can be the faster form. Adapters that are chosen by sample are the same.
    """

    family = Family.COMPUTE
    kind = Kind.WASTE
    threshold = (
        "more copies of an indexed weight than it has entries, each multiplied with one row, "
        "and on a GPU than 512 (gpt-fast #96, transformers #42697 and #43126)"
    )
    recorded = True

    def check(self, profile: Profile) -> Finding:
        window = profile.window
        if window is None or not window.ops:
            return self.not_applicable("operators", "need steps recorded by torch.profiler")
        if not window.with_shapes:
            return self.not_applicable("sizes of operators", "need a window with shapes")
        few = FEW_ON_DEVICE if profile.device.startswith("cuda") else 0
        found = [each for each in _gathered(window) if each.copies > max(each.entries, few)]
        if not found:
            return self.passed("0.0 % of each step multiplies rows with copies of weights")
        moved = [spent_ms((*each.gathers, *each.scatters)) for each in found]
        products = {product for each in found for product, number in each.products if number > each.entries}
        multiplied_ms = spent_ms(products)
        saved_ms = sum(ms * each.again for ms, each in zip(moved, found, strict=True))
        saved_ms += sum(_slower_ms(product, profile) for product in products)
        worst = max(found, key=lambda each: spent_ms(each.gathers))
        heaviest = max(worst.gathers, key=lambda op: op.self_ms)
        _, rows, columns = heaviest.shapes[0]
        place = f" at {heaviest.location}" if heaviest.location else ""
        return self.opportunity(
            f"{percent(share_of_step(profile, sum(moved) + multiplied_ms))} of each step copies weights and "
            f"multiplies each copy with one row: {worst.copies:,} of {worst.entries} ({rows} x {columns})",
            self.modelled(share_of_step(profile, saved_ms)),
            advice=f"Sort rows by expert{place} and multiply those of one expert at once: "
            "`order = experts.argsort()`, `counts = experts.bincount(minlength=len(w)).tolist()`, "
            "`y = torch.cat([part @ each for part, each in zip(x[order].split(counts), w.unbind())])`, and "
            "back with `y[order.argsort()]`; or `torch.nn.functional.grouped_mm`, where the device has it. "
            'A model of transformers is loaded with `experts_implementation="grouped_mm"`.',
            location=heaviest.location,
            evidence={
                "copies_ms": round(sum(moved), 4),
                "products_ms": round(multiplied_ms, 4),
                "weights": [
                    {"shape": list(each.gathers[0].shapes[0]), "copies": each.copies} for each in found
                ],
            },
        )


def _gathered(window: Window) -> list[_Gathered]:
    """Stacks of matrices that are indexed within steps, with the products of which copies may be a factor.

    These tell how many are copied: the sizes of what a tensor is indexed with are not recorded.
    """
    indexed = [
        op
        for op in window.ops
        if op.name in GATHERS and op.phase != "loader" and op.dtype in FLOATING
        and len(op.shapes[0]) == 3 and min(op.shapes[0]) > 1
    ]  # fmt: skip
    return [
        _Gathered(
            entries=weight[0],
            gathers=tuple(op for op in indexed if op.shapes[0] == weight),
            scatters=tuple(op for op in window.ops if op.name in SCATTERS and op.shapes[:1] == (weight,)),
            products=tuple(
                (op, number) for op in window.ops if (number := _multiplied(op, weight[1:])) is not None
            ),
        )
        for weight in sorted({op.shapes[0] for op in indexed})
    ]


def _multiplied(op: OpCost, matrix: tuple[int, ...]) -> int | None:
    """With how many such matrices it multiplies one row each, or how many it makes of one row each.

    Several copies for one row may lie side by side, as `einsum` puts them.
    """
    product = sides(op) if op.name in PRODUCTS else None
    if product is None or 1 not in product:
        return None
    first, second = sorted(product)[1:]  # all but the side of one row
    for one, other in ((first, second), (second, first)):
        for height, width in (matrix, matrix[::-1]):
            if one == height and other % width == 0:
                return max(shape[0] for shape in op.shapes if len(shape) == 3) * (other // width)
    return None


def _slower_ms(product: OpCost, profile: Profile) -> float:
    """Its time beyond that of the same work at the rate of large products; 0 where that is not known."""
    rate = profile.rates.flops(product.dtype or "") if profile.rates is not None else None
    if not rate or product.flops is None:
        return 0.0
    return max(0.0, product.self_ms - 1000 * product.flops * product.calls / rate)
