"""The GGUF language models that the engine knows by name: facts of their publishers, and our measurements."""

from __future__ import annotations

from dataclasses import dataclass

_APACHE = "Apache-2.0"

BUNDLED = "smollm2-135m"
"""The name of the model in the package of weights."""


@dataclass(frozen=True, slots=True)
class PublishedModel:
    """A file in a repository of Hugging Face. `name` is ours."""

    name: str
    repository: str
    revision: str
    file: str
    size: int
    sha256: str

    def url(self, hub: str) -> str:
        return f"{hub.rstrip('/')}/{self.repository}/resolve/{self.revision}/{self.file}"


# Where revision, size and hash were found, besides the pages of the publisher:
# - Qwen2.5-Coder 0.5B: github.com/szl-holdings/a11oy, Dockerfile
# - Qwen2.5-Coder 1.5B: github.com/jonathangana131-lab/NovaForge, AgentPad/Services/LocalModelRuntime.swift
# - Qwen2.5 1.5B: github.com/agrovr/ParetoPilot, .github/workflows/candidate-study-arm64.yml
# The bytes of both Coder models were measured: they had these sizes and hashes.
PUBLISHED_MODELS = (
    PublishedModel(
        name="qwen2.5-coder-0.5b",
        repository="Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
        revision="ebb2015119c907b064c512bf053e945850b5875f",
        file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        size=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    ),
    PublishedModel(
        name="qwen2.5-1.5b",
        repository="Qwen/Qwen2.5-1.5B-Instruct-GGUF",
        revision="91cad51170dc346986eccefdc2dd33a9da36ead9",
        file="qwen2.5-1.5b-instruct-q4_0.gguf",
        size=1_066_227_232,
        sha256="dcd819ff094852c38faba6873d8ff0c9d51eadb2844539e52042ae5d647bbfdb",
    ),
    PublishedModel(
        name="qwen2.5-coder-1.5b",
        repository="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
        revision="f86cb2c1fa58255f8052cc32aeede1b7482d4361",
        file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        size=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    ),
)


@dataclass(frozen=True, slots=True)
class ModelScore:
    """What one has to know to choose a model; None if it has not been measured.

    `everyday` is the number of right answers of the 100 in `bench/everyday.py`, and `memory_mib` the largest
    resident memory of the engine in it with `--written` and one session.
    """

    licence: str
    everyday: int | None = None
    memory_mib: int | None = None


SCORES = {
    BUNDLED: ModelScore(_APACHE, everyday=96, memory_mib=732),
    "qwen2.5-coder-0.5b": ModelScore(_APACHE, everyday=92, memory_mib=1167),
    "qwen2.5-1.5b": ModelScore(_APACHE),
    "qwen2.5-coder-1.5b": ModelScore(_APACHE, everyday=99, memory_mib=2371),
}
"""By name."""
