"""The engines by the names that users give."""

from pathlib import Path

from advisor.tuners.benches.engine import Engine

NAMES = ("ray", "slurm")


def open_engine(name: str, folder: Path) -> Engine:
    """The engine that places processes on the other nodes of a cluster or an allocation.

    Args:
        name: One of ``NAMES``.
        folder: For logs; made where it is not there.

    Raises:
        EnvironmentProblem: It is not installed, or there is no cluster.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if name == "ray":
        from advisor.tuners.benches.ray_engine import RayEngine

        return RayEngine(folder)
    from advisor.tuners.benches.srun_engine import SrunEngine

    return SrunEngine(folder)
