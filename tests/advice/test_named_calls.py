import pytest

from advisor.advice.named_calls import instead_of


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("an f-string", '`log.debug("%s", x)`'),
        ("time.sleep", "while `time.sleep` waits"),
        ("random.sample", "`deque`"),
        ("np.random.binomial", "Draw with torch"),
        ("self.rng.normal", "Draw with torch"),
        ("json.loads", "once in front of the loop"),
        (".readlines", "once in front of the loop"),
        ("os.fsync", "every few hundred steps"),
        ("copy.deepcopy", "`old.copy_(new)`"),
        ("subprocess.run", "every few hundred steps, or in a thread"),
        ("psutil.virtual_memory", "every few hundred steps, or in a thread"),
        ("Categorical", "set_default_validate_args(False)"),
        ("distributions.Normal", "set_default_validate_args(False)"),
        ("m.log_prob", "set_default_validate_args(False)"),
        ("self.envs.step", "AsyncVectorEnv"),
        ("with LOCK", "while `with LOCK` waits"),
    ],
)
def test_what_is_known_has_its_own_advice_with_the_place(call: str, says: str) -> None:
    advice = instead_of(call, "train.py:9")
    assert advice is not None and says in advice and "train.py:9" in advice


@pytest.mark.parametrize(
    "call",
    [
        "",
        "model",
        "rows[index]",
        "torch.stack",
        "self.encoder",
        "x.mean",
        "qkv.split",
        "optimizer.step",
        "Normalize",
        "log_probs",
    ],
)
def test_of_anything_else_nothing_is_known(call: str) -> None:
    assert instead_of(call, "train.py:9") is None
