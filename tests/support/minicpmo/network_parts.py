"""Results of each part of the network for the same input, on any device and in any type."""

import torch

from antiphon.inference_worker.engines.minicpmo.config import SliceConfig
from antiphon.inference_worker.engines.minicpmo.model.network import MiniCPMO
from antiphon.inference_worker.engines.minicpmo.preprocess.images import slice_image
from antiphon.inference_worker.engines.minicpmo.preprocess.mel import MelStream, clip_mels
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.scheduling.model_runner import ModelRunner
from antiphon.inference_worker.engines.minicpmo.scheduling.sampler import (
    CodeRow,
    Sampler,
    SpeechSettings,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import (
    ClearSlot,
    DecodeCodes,
    DecodeSpeech,
    EncodeAudio,
    EncodeClips,
    EncodeImages,
    Feed,
    SpeechCondition,
)
from support.minicpmo import golden_set

Answer = list[torch.Tensor]


def runner_of(
    network: MiniCPMO,
    tokenizer: Tokenizer,
    *,
    slots: int = 2,
    context: int = 512,
    speech_context: int = 256,
    invariant: bool = False,
    cuda_graphs: bool = False,
    speech_stream: bool = False,
) -> ModelRunner:
    runner = ModelRunner(
        network,
        Sampler(tokenizer.ids, tokenizer.forbidden, "upstream"),
        slots=slots,
        context=context,
        speech_context=speech_context,
        invariant=invariant,
        cuda_graphs=cuda_graphs,
        speech_stream=speech_stream,
    )
    runner.capture_graphs()
    return runner


def encodes_audio(runner: ModelRunner) -> Answer:
    """Three chunks in one slot; each sees the keys of those before."""
    stream, wave = MelStream(), golden_set.waves()["w_omni"]
    encoded = []
    for n, start in enumerate((0, 50, 100)):
        stream.push(wave[n * 16000 : (n + 1) * 16000 + 600 * (n == 0)])
        encoded += runner.run([EncodeAudio(1, start, stream.take(), 2 * (n > 0), 2)])
    return encoded


def encodes_clips(runner: ModelRunner) -> Answer:
    [encoded] = runner.run([EncodeClips(clip_mels(golden_set.waves()["w_ref"]))])
    return list(encoded)


def encodes_images(runner: ModelRunner) -> Answer:
    picture = slice_image(golden_set.image("a"), SliceConfig(), 9)
    return list(runner.run([EncodeImages(picture.pixels, picture.grids)])[0])


def feeds_text(runner: ModelRunner, tokens: int = 40) -> Answer:
    """A prompt and a token after it: final states and scores."""
    ids = tuple(range(100, 100 + tokens))
    fed = [runner.run([Feed(1, at, (piece,))])[0] for at, piece in ((0, ids), (tokens, (7,)))]
    return [tensor for answer in fed for tensor in (answer.hidden, answer.logits)]


def decodes_speech(runner: ModelRunner) -> Answer:
    """A condition of given states, and the scores of codes after it."""
    width = runner.network.config.tts_config.llm_dim
    states = torch.randn(3, width, generator=torch.Generator().manual_seed(0))
    given = list(states.to(runner.network.device, runner.network.dtype))
    [condition] = runner.run([SpeechCondition([5, 6, 7], given)])
    row = CodeRow(SpeechSettings(), (), may_end=True)
    code = runner.network.tts.embed_codes(torch.tensor([9], device=condition.device))
    scores = [
        runner.speech_logits([DecodeSpeech(1, at, fed, row)])
        for at, fed in ((0, condition), (4, code))
    ]
    return [condition, *scores]


PARTS = [encodes_audio, encodes_clips, encodes_images, feeds_text, decodes_speech]


def largest_error(exact: Answer, rounded: Answer) -> float:
    """The largest relative error of all results, by their norm."""
    pairs = zip(exact, rounded, strict=True)
    return max(float((got.float().cpu() - want).norm() / want.norm()) for want, got in pairs)


@torch.inference_mode()
def speaks_beside_another(runner: ModelRunner) -> list[list[int]]:
    """A session speaks while another one is fed; then the next session speaks in its slot."""
    words, answers = [5, 6, 7], []
    row = CodeRow(SpeechSettings(), (3,), may_end=True, draw=0.4)
    for _ in range(2):
        fed = runner.run([Feed(0, 0, (tuple(words),))])
        states = [fed[0].hidden] * len(words)
        [condition] = runner.run([SpeechCondition(words, states)])
        started = runner.start([DecodeSpeech(0, 0, condition, row)])
        runner.run([Feed(1, 0, ((8, 9),))])
        [code] = started.read()
        started = runner.start([DecodeCodes(0, len(condition), code, row, (0.3,) * 5)])
        runner.run([Feed(1, 2, ((8, 9),)), Feed(2, 0, ((8,),))])
        answers.append([code, *started.read()])
        runner.run([ClearSlot(0)])
    return answers
