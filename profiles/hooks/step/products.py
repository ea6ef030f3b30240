"""Sums of products that another order computes with less: pairs made by broadcasting, chains of products.

Values are known by the numbers that ``lineage.py`` gives them. What broadcasts two tensors against each other
is followed through what keeps its size up to a sum over a dimension that both have: that is a product of
matrices, or a distance made of one. Products are held as Einstein sums over letters; of one that only goes
into another product, and of each ``einsum`` of several factors, the cheapest order is counted.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

from advisor.profiles.facts.observed import Location, Reordered
from advisor.profiles.hooks.step.demand import ASKING

if TYPE_CHECKING:
    from torch import Tensor

Site = tuple[Location, str]  # a line and a phase
Numbered = tuple[int, "Tensor"]  # a value and its number
Letters = tuple[int, ...]
Found = tuple[Site, int, Reordered]

DIFFERENCES = frozenset({"sub", "__sub__", "__rsub__", "subtract", "rsub"})
FACTORS = frozenset({"mul", "__mul__", "__rmul__", "multiply"})
POWERS = frozenset({"pow", "__pow__", "float_power"})
SUMS = frozenset({"sum", "mean"})
NORMS = frozenset({"norm", "vector_norm", "linalg_norm", "linalg_vector_norm"})
WHOLE = {"pairwise_distance": "norm", "cosine_similarity": "cosine"}  # one call does it all
MATMULS = frozenset({"matmul", "__matmul__", "mm", "bmm"})
TURNS = frozenset({"__get__", "t", "transpose", "swapaxes"})
LARGER = 8  # times the elements of the larger of both, from where a product is cheaper; chosen, not measured
CHEAPER = 0.5  # of the multiplications, up to which another order is told; chosen, not measured
WRITTEN = (
    16  # multiplications in the time of writing one element: a core does some tens; chosen, not measured
)
MOST_FACTORS = 5  # of one sum, of which all orders are counted


@dataclass
class Pairs:
    """Differences or products of all pairs, not summed yet."""

    site: Site
    kind: str
    shared: frozenset[int]  # dimensions, from the last backward, that both tensors have
    elements: int
    spent: int


@dataclass
class Product:
    """A sum over letters of a product of tensors."""

    site: Site
    factors: tuple[Letters, ...]
    out: Letters
    sizes: dict[int, int]
    spent: int
    uses: list[int] = field(default_factory=list)  # of the value, and of its transpose


class Products:
    """What the calls of one step add up, and what else would give the same."""

    def __init__(self) -> None:
        self._pairs: dict[int, Pairs] = {}
        self._products: dict[int, Product] = {}
        self._found: list[Found] = []
        self._joined: list[tuple[int, Found]] = []  # by the product that must go nowhere else

    def clear(self) -> None:
        """A new step begins."""
        for each in (self._pairs, self._products, self._joined, self._found):
            each.clear()

    def called(
        self, name: str, args: Any, kwargs: Any, given: list[Numbered], made: Numbered, site: Site, spent: int
    ) -> None:
        """A call of the program gave one tensor.

        Args:
            name: Of the function.
            args: As it was called.
            kwargs: As it was called.
            given: The tensors among them, with their numbers.
            made: What it gave.
            site: Where it was called.
            spent: Nanoseconds that it took.
        """
        self._pair(name, args, kwargs, given, made, site, spent)
        product = _product(name, args, given, made[1], site, spent)
        if product is not None and made[0] not in self._products:
            self._products[made[0]] = product
            self._join([number for number, _ in given], product)

    def used(self, name: str, given: list[Numbered], made: list[Numbered]) -> None:
        """A call takes these values; a matrix with its rows as columns is the same product still."""
        for number, tensor in given:
            if number not in self._products:
                continue
            before = self._products[number]
            if name in TURNS and tensor.dim() == 2 and len(made) == 1 and _is_turned(tensor, made[0][1]):
                self._products[made[0][0]] = replace(before, out=before.out[::-1])
            elif made or name not in ASKING:
                before.uses.append(number)

    def found(self) -> list[Found]:
        """Sites, the nanoseconds that another order would spare there, and what it is."""
        chains = [told for number, told in self._joined if len(self._products[number].uses) == 1]
        return self._found + chains

    def _pair(
        self, name: str, args: Any, kwargs: Any, given: list[Numbered], made: Numbered, site: Site, spent: int
    ) -> None:
        number, result = made
        before = self._pairs.get(given[0][0]) if given else None
        if before is not None and (kind := _kept(before.kind, name, args, given)):
            self._pairs[number] = Pairs(
                before.site, kind, before.shared, before.elements, before.spent + spent
            )
        elif before is not None and (end := _ends(before.kind, name)):
            if _reduced(name, args, kwargs, given[0][1].dim()) <= before.shared:
                self._tell(before, end, before.spent + spent)
        elif len(given) == 2 and name in DIFFERENCES | FACTORS | WHOLE.keys():
            whole = name in WHOLE
            shape = _broadcast(given) if whole else tuple(result.shape)
            pairs = _outer(given, shape, site, "difference" if name in DIFFERENCES else "product", spent)
            if pairs is None:
                return
            if not whole:
                self._pairs[number] = pairs
            elif _reduced(name, args, kwargs, len(shape)) <= pairs.shared:
                self._tell(pairs, WHOLE[name], spent)

    def _tell(self, pairs: Pairs, kind: str, spent: int) -> None:
        self._found.append((pairs.site, spent, Reordered(kind, 0.0, 1, pairs.elements)))

    def _join(self, given: list[int], last: Product) -> None:
        """Judge an ``einsum`` of several factors, or a product of which one factor is a product itself."""
        if len(last.factors) > 2:
            now, best, most = _costs(last)
            if best <= CHEAPER * now:
                told = Reordered("einsum", 0.0, 1, most, best / now)
                self._found.append((last.site, int(last.spent * (1 - best / now)), told))
            return
        for at, number in enumerate(given):
            first = self._products.get(number)
            if first is None or len(first.factors) != 2 or len(first.out) != len(last.factors[at]):
                continue
            whole = _composed(first, last, at)
            now, best, most = _costs(whole)
            if best <= CHEAPER * now:
                told = Reordered("chain", 0.0, 1, most, best / now)
                self._joined.append((number, (whole.site, int(whole.spent * (1 - best / now)), told)))


def _kept(kind: str, name: str, args: Any, given: list[Numbered]) -> str:
    """What differences of pairs are after a call that keeps their size; empty where none is known."""
    if kind != "difference":
        return ""
    squares = name in POWERS and len(args) > 1 and args[1] == 2
    twice = name in FACTORS and len(given) == 2 and given[0][0] == given[1][0]
    if name == "square" or squares or twice:
        return "square"
    return "absolute" if name in ("abs", "__abs__", "absolute") else ""


def _ends(kind: str, name: str) -> str:
    """What a sum over pairs is; empty where it is none that a product gives."""
    if name in NORMS:
        return "norm" if kind == "difference" else ""
    return kind if name in SUMS and kind != "difference" else ""


def _reduced(name: str, args: Any, kwargs: Any, dims: int) -> frozenset[int]:
    """Dimensions, from the last backward, over which a call adds up: all of them where it says none."""
    place = 1 if name in SUMS else 2
    said = kwargs.get("dim", kwargs.get("axis", args[place] if len(args) > place else None))
    if name in WHOLE:
        said = -1 if name == "pairwise_distance" else (1 if said is None else said)
    if said is None:
        return frozenset(range(-dims, 0))
    several = said if isinstance(said, list | tuple) else (said,)
    return frozenset(each - dims if each >= 0 else each for each in several)


def _is_turned(one: "Tensor", other: "Tensor") -> bool:
    return other.shape == one.shape[::-1] and other.stride() == one.stride()[::-1]


def _broadcast(given: list[Numbered]) -> tuple[int, ...]:
    import torch

    return tuple(torch.broadcast_shapes(*(tensor.shape for _, tensor in given)))


def _outer(given: list[Numbered], shape: tuple[int, ...], site: Site, kind: str, spent: int) -> Pairs | None:
    """Two tensors of which each is repeated over a dimension that only the other has."""
    (own, distinct), (other, others) = (_own(tensor) for _, tensor in given)
    elements = math.prod(shape)
    if not (own - other and other - own and own & other) or elements < LARGER * max(distinct, others):
        return None
    return Pairs(site, kind, frozenset(own & other), elements, spent)


def _own(tensor: "Tensor") -> tuple[set[int], int]:
    """The dimensions that a tensor has, from the last backward, and its elements without those repeated."""
    dims = range(-tensor.dim(), 0)
    own = {dim for dim in dims if tensor.shape[dim] > 1 and tensor.stride(dim) != 0}
    return own, math.prod(tensor.shape[dim] for dim in own)


def _product(
    name: str, args: Any, given: list[Numbered], result: "Tensor", site: Site, spent: int
) -> Product | None:
    """A call as a sum over letters; ``None`` where it is none."""
    shapes = [tuple(tensor.shape) for _, tensor in given]
    if name == "einsum":
        return _einsum(args, shapes, site, spent)
    if name == "linear" and len(shapes) == 2 and shapes[0] and len(shapes[1]) == 2:
        rows = tuple(range(2, len(shapes[0]) + 1))
        return _with_sizes(((*rows, 0), (1, 0)), (*rows, 1), shapes, site, spent)
    if name not in MATMULS or len(shapes) != 2 or min(map(len, shapes)) < 2:
        return None
    deep = result.dim() - 2
    batch = tuple(range(3, 3 + deep))
    first, second = (batch[deep - len(shape) + 2 :] for shape in shapes)
    if any(1 in shape[:-2] for shape in shapes):  # repeated over a batch: other letters
        return None
    return _with_sizes(((*first, 0, 1), (*second, 1, 2)), (*batch, 0, 2), shapes, site, spent)


def _einsum(args: Any, shapes: list[tuple[int, ...]], site: Site, spent: int) -> Product | None:
    import torch

    equation = args[0] if args and isinstance(args[0], str) else "."
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if "." in equation or not arrow or [len(term) for term in terms] != [len(shape) for shape in shapes]:
        return None
    backend = torch.backends.opt_einsum
    if len(terms) > 2 and backend.enabled and backend.is_available():  # finds the order itself
        return None
    if not 2 <= len(terms) <= MOST_FACTORS:
        return None
    factors = tuple(tuple(map(ord, term)) for term in terms)
    return _with_sizes(factors, tuple(map(ord, right)), shapes, site, spent)


def _with_sizes(
    factors: tuple[Letters, ...], out: Letters, shapes: Sequence[tuple[int, ...]], site: Site, spent: int
) -> Product:
    sizes = {
        letter: size
        for term, shape in zip(factors, shapes, strict=True)
        for letter, size in zip(term, shape, strict=True)
    }
    return Product(site, factors, out, sizes, spent)


def _composed(first: Product, last: Product, at: int) -> Product:
    """Both as one sum: the letters of the first are those under which the last knows it."""
    above = 1 + max(max(first.sizes), max(last.sizes))
    names = dict(zip(first.out, last.factors[at], strict=True))
    known = {letter: names.get(letter, letter + above) for letter in first.sizes}
    factors = tuple(tuple(known[letter] for letter in term) for term in first.factors)
    sizes = {**{known[letter]: size for letter, size in first.sizes.items()}, **last.sizes}
    others = tuple(term for place, term in enumerate(last.factors) if place != at)
    return Product(first.site, (*factors, *others), last.out, sizes, first.spent + last.spent)


def _costs(product: Product) -> tuple[float, float, int]:
    """What it costs from the first factor to the last, in the cheapest order, and the most elements between.

    Costs are in multiplications, elements those of the order from the first factor to the last.
    """
    terms = [frozenset(term) for term in product.factors]
    out = frozenset(product.out)
    now, most, left = 0.0, 0.0, terms[0]
    for at, term in enumerate(terms[1:], 2):
        both, left = left | term, (left | term) & out.union(*terms[at:])
        now += _cost(both, left, product.sizes)
        if at < len(terms):
            most = max(most, _size(left, product.sizes))
    return now, _cheapest(terms, out, product.sizes), int(most)


def _cheapest(terms: list[frozenset[int]], out: frozenset[int], sizes: dict[int, int]) -> float:
    if len(terms) < 2:
        return 0.0
    least = math.inf
    for one, other in combinations(range(len(terms)), 2):
        rest = [term for at, term in enumerate(terms) if at not in (one, other)]
        both = terms[one] | terms[other]
        left = both & out.union(*rest)
        cost = _cost(both, left, sizes)
        if cost < least:
            least = min(least, cost + _cheapest([*rest, left], out, sizes))
    return least


def _cost(letters: frozenset[int], left: frozenset[int], sizes: dict[int, int]) -> float:
    """Of joining two factors of these letters: multiplying, and writing what is left."""
    return _size(letters, sizes) + WRITTEN * _size(left, sizes)


def _size(letters: frozenset[int], sizes: dict[int, int]) -> float:
    return float(math.prod(sizes[letter] for letter in letters))
