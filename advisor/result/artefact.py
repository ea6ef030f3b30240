"""What a result says of a file that holds the recommended form of a model."""

from advisor.result.header import Record


class Artefact(Record):
    """A file below ``artefacts/`` beside the report.

    Attributes:
        file: Its name there.
        kind: ``aot_inductor``, ``onnx``, ``openvino``, ``exported_program``, ``state_dict`` or
            ``torchscript``.
        sha256: Of its bytes, in hexadecimal digits.
        bytes: Its size.
        load: Lines of Python that load and call it, from its folder.
        versions: Of the packages that made it.
        cpu_flags: Of the CPU that it was made and measured on.
        weight_bits: Where its weights are quantised.
    """

    file: str
    kind: str
    sha256: str
    bytes: int
    load: list[str]
    versions: dict[str, str]
    cpu_flags: list[str]
    weight_bits: int | None = None
