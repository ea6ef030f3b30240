"""A transformer and how it lies on ranks."""

from dataclasses import dataclass

VOCABULARY = 51_200  # of GPT-2, padded as Megatron-LM does; where a file tells none
HEAD = 128  # width of a head, where a file tells no number of heads


@dataclass(frozen=True)
class Shape:
    """Of a decoder; a sequence is one sample."""

    layers: int
    hidden: int
    sequence: int
    heads: int
    vocabulary: int = VOCABULARY

    @property
    def parameters(self) -> float:
        """``12 L h^2 + V h`` (Narayanan and others, 2021, section 5.1)."""
        return 12.0 * self.layers * self.hidden**2 + self.vocabulary * self.hidden


@dataclass(frozen=True)
class Layout:
    """Ranks on nodes, each holding one part of the tensors of one stage.

    Ranks that split tensors are neighbours, replicas come next, stages last, as Megatron-LM places them.

    Raises:
        ValueError: It does not divide.
    """

    shape: Shape
    ranks: int
    nodes: int
    tensor: int
    stages: int
    micro_batch: int  # samples of one replica that go through at once
    global_batch: float  # samples of a step

    def __post_init__(self) -> None:
        if self.ranks % (self.tensor * self.stages):
            raise ValueError(
                f"{self.ranks} ranks do not divide by {self.tensor} (tensor) x {self.stages} (stages)"
            )
        if self.stages > self.shape.layers:
            raise ValueError(f"{self.stages} stages are more than {self.shape.layers} layers")
        if self.micro_batches < 1:
            raise ValueError(
                f"a replica has {self.global_batch / self.replicas:g} samples, less than a micro-batch of "
                f"{self.micro_batch}"
            )

    @property
    def replicas(self) -> int:
        """Ranks that hold the same parameters."""
        return self.ranks // (self.tensor * self.stages)

    @property
    def micro_batches(self) -> float:
        """In a step of one replica."""
        return self.global_batch / self.replicas / self.micro_batch

    @property
    def held_parameters(self) -> float:
        """By one rank."""
        return self.shape.parameters / (self.tensor * self.stages)

    @property
    def held_activations(self) -> float:
        """By one rank of the first stage: hidden values of all its layers, of every micro-batch under way."""
        under_way = min(self.stages, self.micro_batches)
        tokens = self.micro_batch * self.shape.sequence * self.shape.hidden
        return under_way * tokens * self.shape.layers / (self.stages * self.tensor)

    @property
    def name(self) -> str:
        """As people write it: tensor, stages, replicas, micro-batch."""
        return f"tp{self.tensor} pp{self.stages} dp{self.replicas} mb{self.micro_batch}"


@dataclass(frozen=True)
class Timed:
    """A layout with the milliseconds of its step."""

    layout: Layout
    step_ms: float
