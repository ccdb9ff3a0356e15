"""Measures the natural voices of `local` for `voices/nearest.py`: `python tools/voice_measures.py`.

The repository contains the result. Run it again after a change of the catalogue, of Kokoro, or of what
`measured` computes.
"""

import argparse
import json
import time

import numpy as np
import soxr

from antiphon.inference_worker.engines.local.clauses import words_of
from antiphon.inference_worker.engines.local.options import LocalOptions
from antiphon.inference_worker.engines.local.speech import Clause
from antiphon.inference_worker.engines.local.voices.catalogue import DEFAULT_VOICES, VOICES
from antiphon.inference_worker.engines.local.voices.nearest import MEASURES, Vector, measured
from antiphon.inference_worker.engines.local.voices.speaker import Voices
from antiphon.inference_worker.engines.local.voices.voice import Voice
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE

SENTENCES = {
    "en": (
        "Good morning, how are you today? I hope that you slept well.",
        "The train leaves at seven from the old station near the bridge.",
        "She bought three apples, a bottle of milk and a loaf of bread.",
        "We often walk along the river in the evening, when it is cooler.",
        "Please call me when you arrive at home, even if it is late.",
        "My brother plays the piano very well, but he never sings.",
        "It was raining hard, so we stayed inside and read our books.",
        "Could you open the window a little? The room is too warm.",
    ),
    "zh": (
        "早上好，你今天怎么样？希望你昨天晚上睡得很好。",
        "火车七点从老车站出发，我们应该早一点到那里。",
        "她买了三个苹果，一瓶牛奶，还有一个很大的面包。",
        "我们晚上常常沿着河边散步，因为那时候比较凉快。",
        "你到家以后请给我打电话，晚一点也没有关系。",
        "我哥哥钢琴弹得很好，可是他从来不唱歌。",
        "雨下得很大，所以我们没出门，在家里看了一天书。",
        "你能把窗户打开一点吗？这个房间里实在太热了。",
    ),
}


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    found: dict[str, list[Vector]] = {}
    for language, default in DEFAULT_VOICES.items():
        voices = Voices.load(default, LocalOptions().words_per_minute, language)
        for name in VOICES[language]:
            texts = SENTENCES[language]
            found[name] = [measure(voices.by_id[name], text, language) for text in texts]
    means = {name: np.mean(vectors, axis=0).round(3).tolist() for name, vectors in found.items()}
    spread = np.mean([np.std(vectors, axis=0) for vectors in found.values()], axis=0)
    rows = [f"  {json.dumps(name)}: {json.dumps(mean)}" for name, mean in means.items()]
    text = f'{{"spread": {json.dumps(spread.round(3).tolist())},\n"voices": {{\n'
    MEASURES.write_text(text + ",\n".join(rows) + "\n}}\n", encoding="utf-8")


def measure(voice: Voice, text: str, language: str) -> Vector:
    spoken = voice.speak(Clause(words_of(text, language), ends_sentence=True), time.perf_counter())
    vector = measured(soxr.resample(spoken.audio, OUTPUT_RATE, INPUT_RATE))
    if vector is None:
        raise ValueError(f"too little speech: {text}")
    return vector


if __name__ == "__main__":
    main()
