"""Which forms of a trained model stand together: one makes the model that another would change."""

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Config
from advisor.tuners.mechanisms.forms.onnx_model import PACKAGES
from advisor.tuners.mechanisms.forms.packages import missing
from advisor.tuners.mechanisms.forms.pools import OWN_POOL

OF_TORCH = ("channels_last", "fold_conv_bn", "inference_mode", "matmul_precision", "mkldnn", "sdpa_backend")
"""Knobs of how torch computes a model: a runtime with kernels of its own lays out and fuses as it likes."""


def inert_beside(config: Config) -> tuple[str, ...]:
    """Knobs that do nothing beside the runtime of a configuration: of its threads, or of torch's kernels."""
    runtime = config.get("runtime", "torch")
    inert = OF_TORCH if runtime in OWN_POOL else ("intra_op_num_threads",)
    return inert if runtime == "onnxruntime" else (*inert, "allow_spinning")


def quantised_by_who_runs_it(config: Config, profile: Profile) -> str | None:
    """Not every runtime has every form of 8 bits."""
    kind, runtime = str(config.get("quantization", "none")), str(config.get("runtime", "torch"))
    if kind == "none":
        return None
    if runtime in ("aot_inductor", "openvino"):
        return f"{runtime} takes no model of 8 bits here (quantization={kind})"
    if runtime == "onnxruntime" and kind == "int8_weight_only":
        return "ONNX Runtime computes weights alone of 8 bits for language models only"
    if runtime == "torch" and kind == "int8_static":
        return missing("torchao")
    if runtime == "onnxruntime":
        return missing(*PACKAGES)
    return None


def one_way_to_execute(config: Config, profile: Profile) -> str | None:
    """A runtime has its own code, and what torch would compile is not what it runs."""
    runtime, execution = str(config.get("runtime", "torch")), str(config.get("execution", "eager"))
    if runtime != "torch" and execution != "eager":
        return f"runtime={runtime} runs code of its own, not what execution={execution} makes"
    if config.get("quantization", "none") != "none" and execution.startswith("jit"):
        return "a quantised model is run as it is or compiled, not scripted or traced"
    return None


def precision_is_lowered_once(config: Config, profile: Profile) -> str | None:
    """Autocast does not reach into another form of the model."""
    formed = config.get("quantization", "none") != "none" or config.get("runtime", "torch") != "torch"
    if formed and config.get("amp", "off") != "off":
        return f"autocast (amp={config['amp']}) does not reach into another form of the model"
    return None
