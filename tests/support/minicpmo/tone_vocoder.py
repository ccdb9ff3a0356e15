"""A vocoder whose output can be checked by arithmetic."""

import numpy as np

from antiphon.inference_worker.engines.minicpmo.token2wav.vocoder import VoiceState
from antiphon.shared_schemas.audio import Samples

SAMPLES_PER_CODE = 960


class Tone:
    """Plays each code as 40 ms of its value."""

    def __init__(self) -> None:
        self.turns = 0

    def clone(self, reference: Samples) -> VoiceState:
        return VoiceState(base=float(reference.max()))

    def synthesize(self, voice: VoiceState, codes: list[int], *, last: bool) -> Samples:
        if last:
            self.reset(voice)
        return np.repeat(np.array(codes, dtype=np.float32) / 100, SAMPLES_PER_CODE)

    def reset(self, voice: VoiceState) -> None:
        self.turns += 1

    def close(self) -> None:
        pass
