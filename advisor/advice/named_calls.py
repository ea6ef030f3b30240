"""What to do instead of a call that takes much of a step, by the name it has in the program."""

import re

TEXT = re.compile(r"an f-string|(^|\.)(__format__|__repr__|__str__|format|repr|str|print|pformat)$")
WAITS = re.compile(r"(^|\.)(sleep|wait|acquire|join)$|^with .*\b(?i:lock|mutex|semaphore|condition)")
DRAWS = re.compile(r"^random\.(sample|choices?)$")
NUMPY_DRAWS = re.compile(r"^(np|numpy)\.random\.|(^|\.)rng\.")
PARSES = re.compile(
    r"^(json|yaml|pickle|csv|re|ast)\.|(^|\.)(readlines?|read|read_csv|findall|finditer|loads?|open|imread)$"
)
WRITES = re.compile(r"(^|\.)(fsync|flush|dump|dumps|write|writerow|writelines|savefig|save)$")
ASKS = re.compile(
    r"^(subprocess|psutil|shutil|socket|requests|urllib)\.|^os\.(system|popen|listdir|walk|stat)$|(^|\.)(urlopen|glob|"
    r"check_output|Popen|memory_info|cpu_percent|virtual_memory)$"
)
COLLECTS = re.compile(r"(^|\.)(deepcopy|state_dict)$")
DISTRIBUTIONS = re.compile(
    r"(^|\.)(Bernoulli|Beta|Categorical|Dirichlet|Independent|LogNormal|Mixture\w+|MultivariateNormal|Normal|"
    r"OneHotCategorical)$|\.log_prob$"
)
PLAYS = re.compile(r"(^|\.)envs?\.step$")


def instead_of(call: str, place: str) -> str | None:
    """Advice for one call; ``None`` for what is known to be no trouble, or not known at all.

    Args:
        call: As ``HotSpot.call`` has it: ``random.sample``.
        place: File and line, for the text.
    """
    for names, advice in (
        (
            TEXT,
            "Write values as text only where somebody reads them: pass them to the logger, "
            '`log.debug("%s", x)`, or write every few hundred steps at {place}.',
        ),
        (WAITS, "Take the wait at {place} out of the step: nothing is computed while `{call}` waits."),
        (
            DRAWS,
            "Draw from a list at {place}, or keep what is drawn from in tensors and take "
            "`x[torch.randint(len(x), (n,))]`: a `deque` goes through its entries to reach one.",
        ),
        (
            NUMPY_DRAWS,
            "Draw with torch where the values are used, at {place}: `torch.rand`, `torch.bernoulli`, "
            "`F.dropout`; other random numbers are drawn then.",
        ),
        (PARSES, "Do `{call}` at {place} once in front of the loop, and keep what it gives."),
        (WRITES, "Call `{call}` at {place} every few hundred steps, or keep values and write them at once."),
        (
            ASKS,
            "Ask with `{call}` at {place} once before the loop, every few hundred steps, or in a thread: "
            "nothing is computed while the step waits for the answer.",
        ),
        (
            DISTRIBUTIONS,
            "Leave out what torch.distributions checks of each argument and value at {place}: "
            "`torch.distributions.Distribution.set_default_validate_args(False)` after the imports; wrong "
            "values are then not noticed.",
        ),
        (
            PLAYS,
            "Play several games at once with `{call}` at {place}; and in processes, which cost time to talk "
            "to, where a step of one takes a millisecond and more: `gymnasium.vector.AsyncVectorEnv`.",
        ),
        (COLLECTS, "Call `{call}` at {place} less often, or write into one copy: `old.copy_(new)`."),
    ):
        if names.search(call):
            return advice.format(call=call, place=place)
    return None
