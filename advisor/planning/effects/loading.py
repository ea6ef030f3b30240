"""CPUs and storage of a node are ceilings that its ranks share, like the network."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace


def loading_s(
    samples_per_node: float, cpu_s_per_sample: float, cpus: int, bytes_per_sample: float, bytes_per_s: float
) -> float:
    """Seconds in which a node can prepare the samples of one step: the slower of its CPUs and its storage.

    Args:
        samples_per_node: Local batch times ranks on the node.
        cpu_s_per_sample: CPU seconds that preparing one takes.
        cpus: Cores of the node that may prepare.
        bytes_per_sample: What is read for one.
        bytes_per_s: What the storage gives to one node.
    """
    return samples_per_node * max(cpu_s_per_sample / cpus, bytes_per_sample / bytes_per_s)


@dataclass(frozen=True)
class Supply:
    """What preparing one sample takes, and what a node like the measured one has for it.

    Args:
        cpu_s: CPU seconds of a sample; 0 where they were not measured.
        cpus: Cores of the node.
        read_bytes: Read from files for a sample.
        bytes_per_s: What the storage gave while nothing was cached; infinite where it was not measured.
    """

    cpu_s: float
    cpus: int
    read_bytes: float = 0.0
    bytes_per_s: float = math.inf

    def preparing_ms(self, samples: float) -> float:
        """The shortest step in which the node's CPUs prepare so many samples."""
        return 1e3 * loading_s(samples, self.cpu_s, self.cpus, 0.0, math.inf)

    def reading_ms(self, samples: float) -> float:
        """The shortest step in which its storage gives them, if none is cached."""
        return 1e3 * loading_s(samples, 0.0, self.cpus, self.read_bytes, self.bytes_per_s)

    def within(self, steps: Iterable[tuple[float, float]]) -> "Supply":
        """The same, with no more for a sample than steps of the program left for it.

        Args:
            steps: Samples that a node got in a step, and the milliseconds of that step.
        """
        steps = list(steps)
        cpu = min((ms / 1e3 * self.cpus / samples for samples, ms in steps), default=math.inf)
        read = min((ms / 1e3 * self.bytes_per_s / samples for samples, ms in steps), default=math.inf)
        return replace(self, cpu_s=min(self.cpu_s, cpu), read_bytes=min(self.read_bytes, read))
