"""Layers of 8 bits are slower than those of float32 would be."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule
from advisor.profiles.facts.profile import Profile

THRESHOLD = 1.3  # time of int8 over float32; less may be the machine (set by experiment)
LOST = 0.3  # relative error: layers were timed alone, with their data in the caches


class Int8WithoutVnni(Rule):
    """Without units for 8 bits (VNNI, AMX) int8 saves memory traffic, but little or no arithmetic.

    Where layers are small, what is added (rounding activations, reordering, saturation) costs more than it
    saves: reports go from 2.6 to 10 times slower than float32 (onnxruntime 16009, 12854; pytorch 136094).
    Layers were timed alone with an input of a request, in 8 bits and in float32. Serve the float32 model, or
    leave the layers that lose in float32.
    """

    family = Family.COMPUTE
    kind = Kind.WASTE
    on_traces = "times of single layers: need the program itself"
    threshold = f"int8 layers take {THRESHOLD} times as long as in float32, no units (set by experiment)"

    def check(self, profile: Profile) -> Finding:
        int8, phases = profile.served.int8 if profile.served is not None else None, profile.phases
        if int8 is None or not int8.float32_ms:
            return self.not_applicable("times of int8 layers", "none was seen in requests looked at closely")
        if int8.vnni is not False:
            return self.not_applicable("a processor without units for 8 bits", "this one has them")
        said = f"{int8.int8_ms / int8.float32_ms:.2f} times as long as in float32 take the int8 layers"
        if int8.int8_ms < THRESHOLD * int8.float32_ms or phases is None or phases.step_ms <= 0:
            return self.passed(said)
        saved = min(1.0, (int8.int8_ms - int8.float32_ms) / phases.step_ms)
        return self.opportunity(
            said,
            self.modelled(saved, LOST),
            advice="Serve the float32 model on this processor, or quantise only layers that gain; it takes "
            "four times the memory for weights.",
            evidence={
                "int8_ms": round(int8.int8_ms, 4),
                "float32_ms": round(int8.float32_ms, 4),
                "int8_layers": int8.layers,
            },
        )
