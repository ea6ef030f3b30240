"""The smallest machines, profiles and runs that a test needs, each with what matters said in its call."""

from dataclasses import replace
from typing import Any

from advisor.profiles.events import Run
from advisor.profiles.facts.machine import Gpu, Machine
from advisor.profiles.facts.profile import (
    LoaderFacts,
    OptimizerFacts,
    Profile,
    RootFacts,
    RunFacts,
    StepPhases,
)
from advisor.profiles.facts.recorded import DeviceFacts, OpCost, Window
from advisor.profiles.facts.replayed import Share
from advisor.profiles.facts.served import ServedFacts
from advisor.tuners.knob import AnyKnob, Refused, Value

A_GPU = Gpu(name="NVIDIA H200", uuid="GPU-0", memory_bytes=139 * 2**30, capability=(9, 0))


def a_machine(**facts: Any) -> Machine:
    """Four CPUs with bf16 units, a compiler and no GPU, unless ``facts`` say otherwise."""
    machine = Machine(
        cpus_allowed=4,
        physical_cores=4,
        memory_bytes=16 * 2**30,
        shm_bytes=8 * 2**30,
        cpu_model="Test CPU",
        platform="Linux x86_64",
        torch="2.13.0",
        torch_default_threads=4,
        bf16_speedup=2.0,
        mkldnn=True,
        has_compiler=True,
    )
    return replace(machine, **facts)


def a_loader(**facts: Any) -> LoaderFacts:
    """Batches of 32 out of 1000 items, made in the main process."""
    return replace(LoaderFacts(dataset_type="Items", dataset_length=1000, batch_size=32), **facts)


def an_optimizer(name: str = "AdamW", **facts: Any) -> OptimizerFacts:
    """An optimizer with all implementations, at torch's default."""
    return replace(OptimizerFacts(name, lr=1e-3, has_foreach=True, has_fused=True), **facts)


def a_root(**facts: Any) -> RootFacts:
    """A float32 network without convolutions, on the CPU."""
    return replace(RootFacts("Net", parameters=1000, dtypes=("float32",), devices=("cpu",)), **facts)


def a_share(share: float, error: float = 0.1) -> Share:
    """A measured share with an interval of ``error`` relative to it on either side."""
    return Share(share, share * (1 - error), share * (1 + error))


def an_op(name: str = "aten::mm", self_ms: float = 1.0, **facts: Any) -> OpCost:
    """A float32 operator called once in the forward of every step."""
    defaults = {"calls": 1.0, "total_ms": self_ms, "phase": "forward", "dtype": "float32"}
    return OpCost(name=name, self_ms=self_ms, **{**defaults, **facts})


def a_window(*ops: OpCost, **facts: Any) -> Window:
    """A recorded window over steps of 10 ms, undisturbed, in which ``ops`` are all that computes."""
    window = Window(
        steps=5, step_ms=10.5, clean_step_ms=10.0, overhead=0.05, residual=0.0, events_per_step=500.0,
        compute_ms=sum(op.self_ms for op in ops), ops=ops,
    )  # fmt: skip
    return replace(window, **facts)


def a_device(**facts: Any) -> DeviceFacts:
    """A busy device: 200 kernels of 40 us a step."""
    return replace(DeviceFacts(busy_share=0.95, idle_share=0.05, kernels=200, mean_kernel_us=40.0), **facts)


def a_profile(
    machine: Machine | None = None, *, phases_ms: dict[str, float] | None = None, **facts: Any
) -> Profile:
    """A workload of which nothing is known but the machine; ``phases_ms`` by part, in a step of 10 ms."""
    profile = Profile(machine or a_machine(), target_kind="workload")
    if phases_ms is not None:
        parts: dict[str, Any] = {f"{part}_ms": spent for part, spent in phases_ms.items()}
        profile = replace(profile, phases=StepPhases(step_ms=10.0, steps=20, **parts))
    return replace(profile, **facts)


def a_served_profile(
    machine: Machine | None = None, *, phases_ms: dict[str, float] | None = None, **served: Any
) -> Profile:
    """Requests of 10 ms to a trained model; ``served`` is what was seen beside their times."""
    profile = a_profile(machine, phases_ms=phases_ms or {"forward": 10.0})
    return replace(profile, run=RunFacts(clock="request", num_threads=2), served=ServedFacts(**served))


def a_rich_profile(machine: Machine | None = None, **facts: Any) -> Profile:
    """A small image classifier on the CPU of which everything is known that a knob may ask."""
    profile = a_profile(
        machine,
        phases_ms={"input_wait": 2.0, "forward": 3.0, "backward": 4.0, "optimizer": 1.0},
        loader=a_loader(batch_bytes=32 * 4096, shapes_vary=False, item_ms=0.5, cpu_share=1.0),
        roots=(a_root(dense_convolutions=4, convolution_dimensions=(2,), takes_4d_input=True),),
        optimizers=(an_optimizer(),),
        run=RunFacts(
            num_threads=1,
            sum_reduced_loss=False,
            samples_per_step=32.0,
            sample_source="loader",
            steps_seen=20,
        ),
    )
    return replace(profile, **facts)


def a_gpu_profile(machine: Machine | None = None, **facts: Any) -> Profile:
    """The same classifier on a GPU."""
    profile = a_rich_profile(machine or a_machine(cuda=True, gpus=(A_GPU,)))
    roots = tuple(replace(root, devices=("cuda:0",)) for root in profile.roots)
    return replace(profile, **{"device": "cuda:0", "roots": roots, **facts})


def a_run(present: dict[str, Value] | None = None, **knobs: AnyKnob) -> Run:
    """A run in this process with these knobs, at their present settings."""
    defaults = {name: knob.values()[0] for name, knob in knobs.items()}
    return Run(knobs, {**defaults, **(present or {})}, Refused)
