"""A runner of the real sizes on a GPU without numbers, and every type of step for it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch

from antiphon.inference_worker.engines.minicpmo.config import ModelConfig
from antiphon.inference_worker.engines.minicpmo.conversations.speech_output import ANSWER_SPEECH
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.scheduling.model_runner import ModelRunner
from antiphon.inference_worker.engines.minicpmo.scheduling.sampler import (
    CodeRow,
    Sampler,
    SamplingSettings,
    SpeechSettings,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import (
    MAX_CLIPS,
    MAX_PICTURES,
    ClearSlot,
    DecodeCodes,
    DecodeSpeech,
    EncodeAudio,
    EncodeClips,
    EncodeImages,
    EngineStep,
    Feed,
    FeedForStates,
    SampleToken,
    ShiftCache,
    SpeechCondition,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.token_choice import (
    RecentTokens,
    TokenRow,
)
from support.minicpmo.fake_gpu import GPU, FakeGpu, fake_gpu, network_on
from support.minicpmo.offline_triton import Compiled, compiled_offline

SLOTS, CONTEXT, SPEECH = 16, 8192, 4096
CODE = CodeRow(SpeechSettings(), (3, 3, 4), may_end=False, draw=0.4)
SAID = CodeRow(SpeechSettings(), (3, 3, 7), may_end=True)
ANSWER = CodeRow(ANSWER_SPEECH, (3, 3, 7), may_end=True)
PATCHES = 1024


def with_layers(
    config: ModelConfig, *, text: int, speech: int, audio: int, vision: int
) -> ModelConfig:
    """The same network with so many layers of each part."""
    return config.model_copy(
        update={
            "num_hidden_layers": text,
            "tts_config": config.tts_config.model_copy(update={"num_hidden_layers": speech}),
            "audio_config": config.audio_config.model_copy(update={"encoder_layers": audio}),
            "vision_config": config.vision_config.model_copy(update={"num_hidden_layers": vision}),
        }
    )


@dataclass(frozen=True)
class Card:
    gpu: FakeGpu
    runner: ModelRunner
    compiled: Compiled
    fused: bool

    def launched(self, name: str, steps: int) -> int:
        """Number of launches of the first `steps` steps of a type."""
        chosen = kinds_of_step()[name][:steps]
        self.gpu.clear()
        self.runner.run(chosen)
        return self.gpu.launched


@contextmanager
def serving(
    config: ModelConfig,
    tokenizer: Tokenizer,
    *,
    fused: bool,
    context: int = CONTEXT,
    weights: str = "plain",
    capability: int = 90,
) -> Iterator[Card]:
    """A runner of this network, with these `weights`, on a fake GPU."""
    sampler = Sampler(tokenizer.ids, tokenizer.forbidden, "upstream")
    assert torch.backends.cuda.cudnn_sdp_enabled()
    with fake_gpu() as gpu, compiled_offline(gpu, capability) as compiled:
        runner = ModelRunner(
            network_on(config, fused=fused, weights=weights),
            sampler,
            slots=SLOTS,
            context=context,
            speech_context=SPEECH,
            invariant=False,
        )
        try:
            yield Card(gpu, runner, compiled, fused=fused)
        finally:
            torch.backends.cuda.enable_cudnn_sdp(True)


def states(count: int) -> torch.Tensor:
    return torch.zeros(count, 4096, dtype=torch.bfloat16, device=GPU)


def logits() -> torch.Tensor:
    return torch.zeros(151748, device=GPU)


def _row(slot: int) -> TokenRow:
    return TokenRow(SamplingSettings(listen_top_k=2), RecentTokens((5, 5, 9)), slot, (0.3, 0.6))


def pictures(parts: int) -> EncodeImages:
    return EncodeImages([torch.zeros(3, 14, 14 * PATCHES)] * parts, [(32, 32)] * parts)


def kinds_of_step() -> dict[str, Sequence[EngineStep]]:
    """Full batches of every type of step. Call it inside `fake_gpu`."""
    rows = [_row(slot) for slot in range(SLOTS)]
    every, condition = range(SLOTS), torch.zeros(19, 768, dtype=torch.bfloat16, device=GPU)
    return {
        "decode": [Feed(slot, CONTEXT - 1, ((7,),)) for slot in every],
        "unit": [Feed(slot, 4000, ((7,), states(10))) for slot in every],
        "prompt": [Feed(3, CONTEXT - 1024, ((7,) * 1024,))],
        "reread": [FeedForStates(3, 4000, ((7,) * 512,))],
        "continue": [Feed(row.slot, CONTEXT - 1, ((7,),), draw=row) for row in rows],
        "choose": [SampleToken(logits(), row) for row in rows],
        "write": [SampleToken(logits(), replace(row, written=True)) for row in rows],
        "hear": [EncodeAudio(slot, 1400, torch.zeros(80, 104), 2, 2) for slot in every],
        "clips": [EncodeClips([torch.zeros(80, 3000)] * MAX_CLIPS)],
        "see": [pictures(MAX_PICTURES)],
        "condition": [SpeechCondition([5] * 18, list(states(18))) for _ in every],
        "speak": [DecodeSpeech(slot, 0, condition, CODE) for slot in every],
        "code": [DecodeCodes(slot, SPEECH - 1, 7, SAID, (0.5,)) for slot in every],
        "codes": [DecodeCodes(slot, SPEECH - 2, 7, SAID, (0.5, 0.5)) for slot in every],
        "answer": [DecodeCodes(slot, SPEECH - 1, 7, ANSWER, (0.5,)) for slot in every],
        "shift": [ShiftCache(3, 500, 100, 3500)],
        "clear": [ClearSlot(3)],
    }
