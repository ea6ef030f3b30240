"""What was seen of a program that answers requests, beside the time that they take."""

from dataclasses import dataclass

from advisor.profiles.facts.observed import Location


@dataclass(frozen=True)
class MadeAnew:
    """What a program usually makes once, and made again after its first request.

    ``kind`` is ``load`` (weights drawn for new layers, read from a file and copied into them) or ``form`` (a
    model traced, scripted, exported, quantised, or given to a session), ``call`` the function that took the
    most time of that kind. ``per_request`` is how often, ``ms`` its time per request, ``inside_ms`` the part
    of it that passed while a request was answered.
    """

    kind: str
    call: str
    per_request: float
    ms: float
    inside_ms: float
    location: Location | None = None


@dataclass(frozen=True)
class SessionFacts:
    """A session of ONNX Runtime; ``threads`` 0 asks for one per physical core of the machine.

    ``spinning`` is whether its threads wait busily for the next operator, as they do unless told not to.
    """

    threads: int
    spinning: bool
    location: Location | None = None


@dataclass(frozen=True)
class Int8Facts:
    """Layers of 8 bits, each called alone with an input of a request.

    ``error`` is the relative root mean squared error of the worst layer's kernel (``worst``) against the same
    weights and activations multiplied in float32. ``int8_ms`` is the time of all layers that were tried,
    ``float32_ms`` that of the same layers in float32. ``vnni`` is whether the processor multiplies 8 bits
    without sums of 16 bits; ``None`` where it does not say.
    """

    layers: int
    error: float
    worst: str
    int8_ms: float
    float32_ms: float
    vnni: bool | None = None


@dataclass(frozen=True)
class ServedFacts:
    """How requests are answered.

    ``session_ms`` is the mean time of a request in sessions. ``first_ms`` is the first request that the
    program marks itself, ``None`` where it marks none. ``before_ms`` is the usual time of a request before
    a model is called. ``calibrated`` counts the different inputs that a model was calibrated with,
    ``calibrated_share`` (0 to 1) is the share of those answered later that are among them. ``tokens_again``
    (0 to 1) is the share of tokens that a model computed in one call and again in the next one, longer by
    what it had answered; ``prefix`` is the mean length of such inputs. ``last_token`` is the time of a call
    with the last token of a text over that with the whole text, ``eight_at_once`` that of eight samples in
    one call over that of one. ``zeros`` (0 to 1) is the share of zeros in weights of two dimensions and
    more, ``masks`` counts weights that are multiplied with a mask in each call, and ``mask_ms`` is the time
    of that per call of the model.
    ``cache`` is where ``generate`` was last called to keep keys and values (``off``, ``dynamic``, ``static``,
    another kind of transformers, or ``own`` where it was handed over); ``None`` where it was not called.
    """

    made: tuple[MadeAnew, ...] = ()
    sessions: tuple[SessionFacts, ...] = ()
    session_ms: float = 0.0
    int8: Int8Facts | None = None
    first_ms: float | None = None
    before_ms: float | None = None
    calibrated: int = 0
    calibrated_share: float | None = None
    tokens_again: float | None = None
    prefix: float | None = None
    last_token: float | None = None
    eight_at_once: float | None = None
    zeros: float | None = None
    masks: int = 0
    mask_ms: float = 0.0
    cache: str | None = None
