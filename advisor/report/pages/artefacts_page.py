"""Files of a recommended form of a model in words: what each is, what made it, the lines that load it."""

from dataclasses import dataclass

from advisor.report.artefacts import FOLDER
from advisor.report.markdown import code, escaped, section
from advisor.result.artefact import Artefact
from advisor.result.document import ResultData
from advisor.result.wording import shown, shown_block

KINDS = {
    "aot_inductor": "a package of AOTInductor",
    "onnx": "an ONNX model",
    "exported_program": "an exported program",
    "state_dict": "a quantised state",
    "torchscript": "a TorchScript module",
    "openvino": "a model of OpenVINO",
}


@dataclass(frozen=True)
class ArtefactRow:
    """One file; ``made`` names versions and the flags of the CPU, ``load`` holds lines of Python."""

    file: str
    kind: str
    made: str
    sha256: str
    load: str


def rows(result: ResultData) -> list[ArtefactRow]:
    """All files of the recommendation."""
    return [
        ArtefactRow(
            file=f"{FOLDER}/{shown(each.file, 200)}",
            kind=_kind(each),
            made=_made(each.versions, each.cpu_flags),
            sha256=shown(each.sha256, 64),
            load=shown_block("\n".join(each.load)),
        )
        for each in result.artefacts
    ]


def lines(result: ResultData) -> list[str]:
    """For a terminal; paths are beside the report."""
    told = []
    for row in rows(result):
        told += [f"  {row.file}: {row.kind}; {row.made}", f"      sha256 {row.sha256}"]
        told += [f"      {line}" for line in row.load.splitlines()]
    return ["", "Files", *told] if told else []


def markdown(result: ResultData) -> list[str]:
    """A table."""
    cells = [
        (
            code(row.file, 200),
            escaped(row.kind),
            escaped(row.made),
            code(row.sha256),
            " ".join(code(line, 200) for line in row.load.splitlines()),
        )
        for row in rows(result)
    ]
    return section("Files", ("file", "what it is", "made with", "sha256", "load"), cells)


def _kind(artefact: Artefact) -> str:
    bits = "" if artefact.weight_bits is None else f"weights of {artefact.weight_bits} bits, "
    return f"{KINDS.get(artefact.kind, shown(artefact.kind, 40))}, {bits}{_size(artefact.bytes)}"


def _size(count: int) -> str:
    return f"{count / 2**20:,.1f} MiB" if count >= 2**20 else f"{count / 2**10:,.1f} KiB"


def _made(versions: dict[str, str], flags: list[str]) -> str:
    packages = ", ".join(f"{shown(name, 40)} {shown(version, 40)}" for name, version in versions.items())
    known = ", ".join(shown(flag, 40) for flag in flags)
    return f"{packages} on a CPU with {known}" if known else packages
