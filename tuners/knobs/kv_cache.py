"""Whether a generation keeps keys and values of the tokens before."""

from typing import Any

from advisor.base.unit import Unit
from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Knob, Refused, Semantics

KINDS = ("dynamic", "static")


class KvCache(Knob[str]):
    """Has `generate` of transformers keep keys and values, where the program has switched that off.

    Without a cache each new token has the whole text computed again, n²/2 computations for n tokens; with
    one it has its own. `dynamic` grows with the text and is what transformers does by default. `static` has
    room for the longest text from the start: sizes stay the same, which is what compiled code needs; each
    token then looks at all of that room. The memory is two values per layer, token and hidden dimension.
    Tokens differ where two were as likely but for rounding: they are compared.

    It is off by `use_cache=False` in a call or a configuration; models that were trained with recomputed
    activations are often saved so.
    """

    semantics = Semantics.ROUNDING
    units = frozenset({Unit.REQUEST})
    usual_gain = 0.5
    live = True
    acts_on = ("forward",)
    written = ("use_cache", "cache_implementation")

    def values(self) -> list[str]:
        return ["off", *KINDS]

    def present(self, profile: Profile) -> str:
        kept = None if profile.served is None else profile.served.cache
        if kept is None:
            raise Refused("no call of `generate` of transformers was seen")
        if kept != "off":
            raise Refused(f"keys and values are kept already ({kept})")
        return "off"

    def choices(self, profile: Profile) -> list[str]:
        return [self.present(profile), *KINDS]

    def check(self, value: str, profile: Profile) -> None:
        self.present(profile)

    def generate(self, arguments: dict[str, Any], value: str) -> None:
        """Set where keys and values of one generation are kept."""
        arguments["use_cache"] = value != "off"
        if value == "static":
            arguments["cache_implementation"] = "static"

    def change(self, value: str) -> Change:
        match value:
            case "off":
                return Change("model.generate(..., use_cache=False)")
            case "static":
                return Change('model.generate(..., use_cache=True, cache_implementation="static")')
        return Change("model.generate(..., use_cache=True)")
