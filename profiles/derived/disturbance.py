"""What made a run's times those of something else: other load, throttling, collapsed threads."""

from advisor.profiles.facts.profile import Profile

OTHER_CPUS = 0.15  # of one CPU, used by processes that are not of this run
TICK_S = 0.01  # of the kernel's CPU times
TICKS = 3  # of error in the difference of two sums of such times
THROTTLED = 0.05  # share of the window's periods in which the cgroup's quota was hit
CLOCK = 0.75  # of the nominal device clock (nvbench #231)
HOT_C = 85.0  # TraceML
COLLAPSED = 0.6  # CPU time over wall time and threads, with other load present


def disturbances(profile: Profile) -> tuple[str, ...]:
    """Ids of the rules whose condition makes every time of this profile doubtful."""
    host = profile.host
    if host is None:
        return ()
    found = []
    if host.other_cpus is not None and host.other_cpus > OTHER_CPUS:
        found.append("other_load")
    if throttling(profile):
        found.append("throttled")
    if threads_collapsed(profile):
        found.append("thread_collapse")
    return tuple(found)


def throttling(profile: Profile) -> list[str]:
    """What throttles: sentences for the evidence; empty when nothing does."""
    host = profile.host
    if host is None:
        return []
    said = []
    if host.throttled_share is not None and host.throttled_share > THROTTLED:
        said.append(f"the cgroup's CPU quota was hit in {100 * host.throttled_share:.0f} % of its periods")
    if host.clock_share is not None and host.clock_share < CLOCK:
        said.append(f"the device runs at {100 * host.clock_share:.0f} % of its clock")
    if host.gpu_temperature_c is not None and host.gpu_temperature_c >= HOT_C:
        said.append(f"the device is at {host.gpu_temperature_c:.0f} degrees Celsius")
    return said


def threads_collapsed(profile: Profile) -> bool:
    """Whether several threads spin on fewer CPUs, by CPU time far below wall time and threads.

    Low CPU time alone is also what a program with small operators shows: other load must be there too,
    or a single thread must be faster.
    """
    host, run = profile.host, profile.run
    if host is None or run is None or run.num_threads < 2 or host.cpu_per_wall is None:
        return False
    loaded = host.other_cpus is not None and host.other_cpus > OTHER_CPUS
    slower = (
        host.one_thread_step_ms is not None
        and profile.phases is not None
        and host.one_thread_step_ms < 0.9 * profile.phases.step_ms
    )
    return (loaded or slower) and host.cpu_per_wall < COLLAPSED * run.num_threads
