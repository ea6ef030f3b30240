import hashlib
from pathlib import Path

from advisor.tuners.mechanisms.forms.artefact import cpu_flags, describe, sha256
from advisor.tuners.mechanisms.forms.form import Form


def test_a_hash_is_that_of_the_bytes(tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    file.write_bytes(b"weights" * 1000)
    assert sha256(file) == hashlib.sha256(b"weights" * 1000).hexdigest()


def test_flags_that_decide_on_kernels_are_told(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor : 0\nflags : fpu sse2 avx2 avx512_vnni\nprocessor : 1\nflags : avx2\n")
    assert cpu_flags(cpuinfo) == ["avx2", "avx512_vnni"]
    assert cpu_flags(tmp_path / "missing") == []


def test_what_cannot_be_saved_is_not_described(tmp_path: Path) -> None:
    assert describe(Form(print, None, "", "onnx"), tmp_path) is None
