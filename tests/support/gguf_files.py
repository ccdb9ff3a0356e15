"""Small GGUF files: a header, and one tensor of zeros."""

import struct


def _text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def gguf(
    architecture: str = "llama", *, tokenizer: bool = True, tensors: int = 1, elements: int = 256
) -> bytes:
    """A complete file that can be taken for a language model, but not loaded. Its tensors overlap."""
    values = {"general.architecture": architecture} | (
        {"tokenizer.ggml.model": "gpt2"} if tokenizer else {}
    )
    tokens = struct.pack("<IIQ", 9, 8, 2) + _text("a") + _text("b")
    header = b"GGUF" + struct.pack("<IQQ", 3, tensors, len(values) + 2)
    for name, value in values.items():
        header += _text(name) + struct.pack("<I", 8) + _text(value)
    header += _text("general.alignment") + struct.pack("<II", 4, 64)
    header += _text("tokenizer.ggml.tokens") + tokens
    for number in range(tensors):
        header += _text(f"t{number}") + struct.pack("<IQIQ", 1, elements, 0, 0)
    header += bytes(-len(header) % 64)
    return header + bytes(4 * elements if tensors else 0)
