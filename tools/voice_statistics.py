"""Measures what `Kokoro.piece` needs of each natural voice: `python tools/voice_statistics.py`.

The repository contains the results. Run it again after a change of the catalogue or of Kokoro's network.
"""

import argparse

import numpy as np

from antiphon.inference_worker.engines.common.onnx import cpu_session
from antiphon.inference_worker.engines.common.onnx_file import ElementType
from antiphon.inference_worker.engines.local.clauses import words_of
from antiphon.inference_worker.engines.local.voices.cancellation import Cancellation
from antiphon.inference_worker.engines.local.voices.catalogue import VOICES, NaturalVoice
from antiphon.inference_worker.engines.local.voices.kokoro import (
    STYLES,
    THREADS,
    Kokoro,
    Statistics,
    changed_network,
    load_style,
    no_statistics,
)
from antiphon.inference_worker.engines.local.voices.network import OWN_SUFFIX, cut_in_two
from antiphon.inference_worker.engines.local.voices.voice import symbols_in
from voice_measures import SENTENCES

ANSWERS = {
    "en": (
        "It is a quarter past nine.",
        "Twenty three times four is ninety two.",
        "I do not know that.",
        "Yes, of course.",
        "The heart pumps blood through the body.",
        "A week has seven days.",
        "My name is Antiphon.",
        "Paris is the capital of France.",
        "I am a program, so I have no favourite colour.",
        "Once upon a time there was a little fox, who lived in a forest.",
        "Mix the flour with two eggs, and add a little salt.",
        "That is a good question.",
        "Gravity pulls everything towards the centre of the Earth.",
        "You can ask me about the time, or about numbers.",
        "Beethoven was a German composer.",
        "Thank you, that is kind of you.",
    ),
    "zh": (
        "现在是九点一刻。",
        "我不知道。",
        "好的，没问题。",
        "心脏把血液送到全身。",
        "一个星期有七天。",
        "巴黎是法国的首都。",
        "从前有一只小狐狸，住在森林里。",
        "谢谢你，你真好。",
    ),
}
"""Answers as they are spoken in conversations; besides them, the longer sentences of `voice_measures`."""


class Listener:
    """Computes means and variances of whole texts."""

    def __init__(self) -> None:
        self._kokoro = Kokoro()
        _, generator, self._names = cut_in_two(changed_network())
        self._outputs = [f"{name}{OWN_SUFFIX}" for name in self._names]
        for name in self._outputs:
            generator.add_output(name, ElementType.FLOAT)
        self._generator = cpu_session(generator.to_bytes(), THREADS)

    def of(self, text: str, language: str, voice: NaturalVoice) -> tuple[int, Statistics]:
        """Steps of the text, and its statistics."""
        symbols = symbols_in([word.spoken for word in words_of(text, language)], voice.accent)
        melody = self._kokoro.melody(symbols.ids, load_style(voice.style), 1.0, Cancellation())
        inputs = melody.inputs(0, melody.length) | no_statistics(self._names)
        rows = np.zeros((len(self._names), 256), dtype=np.float32)
        for row, values in zip(rows, self._generator.run(self._outputs, inputs), strict=True):
            row[: values.size] = np.ravel(values)
        return melody.length, rows


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    listener = Listener()
    for language, voices in VOICES.items():
        for voice in voices.values():
            found = [
                listener.of(text, language, voice)
                for text in (*ANSWERS[language], *SENTENCES[language])
            ]
            lengths, rows = zip(*found, strict=True)
            usual = np.average(rows, axis=0, weights=lengths)
            usual.astype("<f2").tofile(STYLES / f"{voice.style}.statistics.f16")


if __name__ == "__main__":
    main()
