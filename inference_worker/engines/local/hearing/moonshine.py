"""Moonshine tiny-en: the network that turns English speech into text, from the weights in a wheel.

It runs here and not in the wheel's own library, which returns text without the probability of its words.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antiphon.inference_worker.engines.common.installed_packages import package_folders
from antiphon.inference_worker.engines.common.onnx import cpu_session
from antiphon.inference_worker.engines.local.hearing.transcript import Transcript
from antiphon.inference_worker.engines.types import EngineLoadError
from antiphon.shared_schemas.audio import INPUT_RATE, Samples

PACKAGE = "moonshine_voice"
INSTALL_COMMAND = "pip install moonshine-voice==0.1.0"
_FOLDER = "assets/tiny-en"
_FILES = ("encoder_model.ort", "decoder_model_merged.ort", "tokenizer.bin")

_BEGIN, _END = 1, 2
_NOTHING = np.zeros((1, 8, 0, 36), dtype=np.float32)
"""The keys or values of no tokens: eight heads of 36 numbers."""

_TOKENS_PER_SECOND = 6.5
"""More are a loop, which the network falls into in noise."""

_SPACE = "\u2581"
_BYTE = re.compile(rb"<0x([0-9A-F]{2})>")
_CONTROL = re.compile(rb"<.*>")


WIDTH = 4
"""One text at a time is enough where nothing depends on it, and costs half as much."""


@dataclass(frozen=True, slots=True)
class _Beam:
    """The beginning of a text that was perhaps said."""

    tokens: tuple[int, ...]
    log_probability: float


class Moonshine:
    """The loaded network. Safe to use from any thread."""

    def __init__(self) -> None:
        """Raises EngineLoadError if the weights are missing or broken."""
        encoder, decoder, tokens = find_files()
        try:
            self._encoder = cpu_session(str(encoder), keeps_memory=False)
            self._decoder = cpu_session(str(decoder), keeps_memory=False)
            self._tokens = list(_read_tokens(tokens.read_bytes()))
        except (OSError, RuntimeError, IndexError) as error:
            raise EngineLoadError(
                f"the speech model in {encoder.parent} does not load: {error}"
            ) from error
        names = [value.name for value in self._decoder.get_inputs()]
        caches = [name for name in names if name.startswith("past_key_values")]
        self._word_caches = [name for name in caches if ".decoder." in name]
        self._sound_caches = [name for name in caches if ".encoder." in name]

    def transcribe(self, speech: Samples, width: int) -> Transcript:
        """The most probable text of `speech` (16 kHz) among `width` that are followed at a time."""
        mask = np.ones((1, len(speech)), dtype=np.int64)
        inputs = {"input_values": speech[np.newaxis].astype(np.float32), "attention_mask": mask}
        (states,) = self._encoder.run(None, inputs)
        sound = {"encoder_hidden_states": states, "encoder_attention_mask": mask}
        sound |= dict.fromkeys(self._sound_caches, _NOTHING)
        words = dict.fromkeys(self._word_caches, _NOTHING)
        beams, ended = [_Beam((_BEGIN,), 0.0)], list[_Beam]()
        for place in range(int(len(speech) / INPUT_RATE * _TOKENS_PER_SECOND) + 1):
            scores, computed = self._next_tokens(beams, sound | words, first=place == 0)
            words = {name: computed.pop(name) for name in words}
            sound |= computed
            found = _best(beams, scores, width - len(ended))
            ended += [beam for _, beam in found if beam.tokens[-1] == _END]
            going = [(source, beam) for source, beam in found if beam.tokens[-1] != _END]
            if not going:
                break
            sources = [source for source, _ in going]
            words = {name: value[sources] for name, value in words.items()}
            if len(going) != len(beams):  # what belongs to the sound is the same for all of them
                first_of_each = [0] * len(going)
                sound = {name: value[first_of_each] for name, value in sound.items()}
            beams = [beam for _, beam in going]
        best = max(ended or beams, key=lambda beam: beam.log_probability)
        return Transcript(self._text(best.tokens), best.log_probability, len(best.tokens) - 1)

    def _next_tokens(
        self, beams: Sequence[_Beam], known: dict[str, Any], *, first: bool
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """The log probability of each token after each of `beams`, and the caches that the step computes.

        The first step computes those of the sound too.
        """
        caches = [*self._word_caches, *(self._sound_caches if first else ())]
        logits, *computed = self._decoder.run(
            ["logits", *(name.replace("past_key_values", "present") for name in caches)],
            {
                "input_ids": np.array([beam.tokens[-1:] for beam in beams], dtype=np.int64),
                "use_cache_branch": np.array([not first]),
                **known,
            },
        )
        scores: NDArray[np.float32] = logits[:, -1]
        scores -= scores.max(axis=1, keepdims=True)
        scores -= np.log(np.exp(scores).sum(axis=1, keepdims=True))
        return scores, dict(zip(caches, computed, strict=True))

    def _text(self, tokens: Sequence[int]) -> str:
        written = bytearray()
        for token in tokens:
            piece = self._tokens[token]
            if byte := _BYTE.fullmatch(piece):
                written.append(int(byte[1], 16))
            elif not _CONTROL.fullmatch(piece):
                written += piece
        return written.decode(errors="replace").replace(_SPACE, " ").strip()


def _best(
    beams: Sequence[_Beam], scores: NDArray[np.float32], count: int
) -> list[tuple[int, _Beam]]:
    """The `count` most probable ways to continue one of `beams`, with its place among them."""
    totals = (scores + np.array([[beam.log_probability] for beam in beams], np.float32)).ravel()
    found = []
    for at in np.argpartition(-totals, count - 1)[:count]:
        source, token = divmod(int(at), scores.shape[1])
        found.append((source, _Beam((*beams[source].tokens, token), float(totals[at]))))
    return found


def find_files() -> list[Path]:
    """The encoder, the decoder and the tokens. Raises EngineLoadError if one is missing."""
    for folder in package_folders(PACKAGE):
        files = [folder / _FOLDER / name for name in _FILES]
        if all(file.is_file() for file in files):
            return files
    raise EngineLoadError(
        f"the speech recogniser needs the weights in the package {PACKAGE!r}; run: {INSTALL_COMMAND}"
    )


def _read_tokens(raw: bytes) -> Iterator[bytes]:
    """Each token follows its length, which takes two bytes from 128."""
    at = 0
    while at < len(raw):
        length, at = raw[at], at + 1
        if length >= 128:
            length, at = raw[at] * 128 + length - 128, at + 1
        yield raw[at : at + length]
        at += length
