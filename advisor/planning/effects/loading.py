"""CPUs and storage of a node are ceilings that its ranks share, like the network."""


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
