"""What ranks exchange most: gradients in buckets, or what is sent to one rank and not to another."""

from advisor.profiles.facts.profile import Profile

DIRECTED = ("all_to_all", "send_recv")  # embeddings of recommenders, experts, stages of a pipeline
MOSTLY = 0.5  # of the time of all exchanges


def mostly_directed(profile: Profile) -> bool:
    """Whether most of the time goes to exchanges that no size of buckets changes."""
    directed = sum(each.ms for each in profile.collectives if each.kind in DIRECTED)
    return directed > MOSTLY * sum(each.ms for each in profile.collectives)


START_EARLIER = (
    "Start the exchange before work that does not need its result, and wait after it: "
    "`work = dist.all_to_all_single(out, x, async_op=True)`, later `work.wait()`."
)
