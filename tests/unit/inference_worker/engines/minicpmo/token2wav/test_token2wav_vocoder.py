"""Token2wav for many streams, compared with the package's loop for one, on the package's networks."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from antiphon.inference_worker.engines.minicpmo.token2wav.streams import (
    CodeChunk,
    Synthesis,
    VoiceStream,
)
from antiphon.inference_worker.engines.minicpmo.token2wav.token2wav_vocoder import (
    LEAST_REFERENCE_S,
    Token2WavVocoder,
    free_unused_buffers,
)
from antiphon.inference_worker.engines.minicpmo.token2wav.vocoder import (
    SILENT_PREFIX,
    VoiceState,
    cut_reference,
    next_pieces,
)
from antiphon.inference_worker.engines.types import EngineError, EngineLoadError, InputRefused
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, Samples
from support.minicpmo import stepaudio_package
from support.minicpmo.single_stream import SINGLE_STREAM
from support.minicpmo.stepaudio_package import CODES, EARLIER, LATER
from support.minicpmo.stream_order import OrderedStream, ordered_streams

CPU = torch.device("cpu")
NEAR = 1e-5
SECONDS = (1.0, 1.6, 4.4)
"""Length of each session's reference; the turn is trimmed from its third chunk on."""

DRAW = np.random.default_rng(1)
WAVES = [DRAW.normal(0, 0.1, int(s * INPUT_RATE)).astype(np.float32) for s in SECONDS]
UNITS = [[DRAW.integers(0, CODES, n).tolist() for n in [25] * 4 + [9]] for _ in WAVES]

ATEN = torch.ops.aten
PRODUCTS = {
    ATEN.linear,
    ATEN.matmul,
    ATEN.conv1d,
    ATEN.conv_transpose1d,
    ATEN.scaled_dot_product_attention,
}

ONE_RELEASE = pytest.mark.parametrize("release", [EARLIER], indirect=True)
"""For what all releases share."""

Piece = tuple[list[int], bool]


def pieces(units: list[list[int]]) -> list[Piece]:
    """The chunks of a complete turn: four of a second, and the flush."""
    waiting, cut = list(SILENT_PREFIX), list[Piece]()
    for n, codes in enumerate(units, 1):
        waiting += codes
        cut += next_pieces(waiting, 3, last=n == len(units))
    return cut


TURNS = [pieces(units) for units in UNITS]


@pytest.fixture(scope="module", params=[EARLIER, LATER])
def release(request: pytest.FixtureRequest) -> Iterator[str]:
    # The package calls the compiler in one place, which the engine does not use.
    with stepaudio_package.still_noise(), torch.compiler.set_stance("force_eager"):
        yield request.param


@pytest.fixture(scope="module")
def package(release: str) -> Any:
    return stepaudio_package.token2wav(release)


@pytest.fixture(scope="module")
def alone(release: str, package: Any, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Each session's chunks by the package alone: mel and audio."""
    sounds = []
    path = tmp_path_factory.mktemp("voice") / "voice.wav"
    for wave, turn in zip(WAVES, TURNS, strict=True):
        soundfile.write(path, wave, INPUT_RATE)
        with torch.inference_mode():
            one = SINGLE_STREAM[release](package, path)
            sounds.append([one.chunk(codes, ends=ends) for codes, ends in turn])
    return sounds


@pytest.fixture(scope="module")
def vocoder(release: str) -> Token2WavVocoder:
    inner = stepaudio_package.token2wav(release)
    free_unused_buffers(inner)
    return Token2WavVocoder(inner, CPU, voice_seconds=5, retained=torch.float32)


@pytest.fixture(scope="module")
def voices(vocoder: Token2WavVocoder) -> list[VoiceState]:
    return [vocoder.clone(wave) for wave in WAVES]


def turns(voices: list[VoiceState]) -> list[VoiceStream]:
    return [voice.base.copy() for voice in voices]


def chunks(streams: list[VoiceStream], n: int) -> list[CodeChunk]:
    return [CodeChunk(s, *turn[n]) for s, turn in zip(streams, TURNS, strict=True)]


def near(got: Synthesis, want: torch.Tensor) -> bool:
    assert isinstance(got, np.ndarray), got
    assert got.shape == want.shape
    return bool(np.abs(got - np.clip(want.numpy(), -1, 1)).max() < NEAR)


def test_batched_streams_equal_single_ones_of_the_package(
    vocoder: Token2WavVocoder,
    voices: list[VoiceState],
    alone: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Mel and audio of every chunk."""
    streams, advance, mels = turns(voices), vocoder._flow.advance, list[torch.Tensor]()

    def noting(codes: Any, states: Any, *, ends: bool) -> Any:
        flowed = advance(codes, states, ends=ends)
        mels.extend(mel.clone() for mel in flowed.mel)
        return flowed

    monkeypatch.setattr(vocoder._flow, "advance", noting)
    for n in range(len(TURNS[0])):
        mels.clear()
        sounds = vocoder._run_batch(chunks(streams, n))
        assert all(near(got, want[n][1]) for got, want in zip(sounds, alone, strict=True))
        for mel, want in zip(mels, alone, strict=True):
            assert float((mel - want[n][0]).abs().max()) < NEAR
    assert max(float(mel.abs().max()) for chunk in alone for mel, _ in chunk) > 1
    assert max(float(sound.abs().max()) for chunk in alone for _, sound in chunk) > 0.05


class HostReads(TorchDispatchMode):
    """Fails if an operation returns a value to Python, for which the host waits."""

    def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._can_decompose():  # in inference mode a composite operation arrives whole
            with self:
                return func.decompose(*args, **(kwargs or {}))
        out = func(*args, **(kwargs or {}))
        assert not isinstance(out, bool | int | float), f"{func} is read by the host"
        return out


def test_no_operation_waits_for_the_device(
    vocoder: Token2WavVocoder, voices: list[VoiceState]
) -> None:
    """All chunks of a turn; the audio itself is read at the end of each."""
    streams = turns(voices)
    for n in range(len(TURNS[0])):
        with HostReads():
            sounds = vocoder._run_batch(chunks(streams, n))
        assert all(isinstance(sound, np.ndarray) for sound in sounds), sounds


def test_turns_of_unsynchronised_sessions(
    vocoder: Token2WavVocoder, voices: list[VoiceState], alone: list[Any]
) -> None:
    """In any batch: a second turn equals the first, also after a reset within a turn."""
    sound: list[list[Samples]] = [[] for _ in voices]

    def talk(who: int) -> None:
        voice, units = voices[who], UNITS[who]
        vocoder.reset(voice)
        vocoder.synthesize(voice, units[3], last=False)
        vocoder.reset(voice)
        for part in (units, units[:3]):
            said = [vocoder.synthesize(voice, codes, last=codes is units[-1]) for codes in part]
            sound[who].append(np.concatenate(said))

    threads = [threading.Thread(target=talk, args=(who,)) for who in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for who in range(3):
        want = torch.cat([sounds for _, sounds in alone[who]])
        first, second = sound[who]
        assert near(first, want)
        assert near(second, want[: 3 * OUTPUT_RATE])


def test_a_failing_stream_does_not_affect_the_others(
    vocoder: Token2WavVocoder,
    voices: list[VoiceState],
    alone: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    streams = turns(voices)
    vocoder._run_batch(chunks(streams, 0))
    known = streams[1].flow
    streams[1].flow = replace(known, speaker=torch.full_like(known.speaker, float("nan")))
    sounds = vocoder._run_batch(chunks(streams, 1))
    assert isinstance(sounds[1], EngineError)
    assert all(near(sounds[who], alone[who][1][1]) for who in (0, 2))
    assert streams[1].flow.speaker.isnan().all()
    advance = vocoder._flow.advance

    def fails(codes: Any, states: Any, *, ends: bool) -> Any:
        if any(state is streams[1].flow for state in states):
            raise RuntimeError("no memory left")
        return advance(codes, states, ends=ends)

    monkeypatch.setattr(vocoder._flow, "advance", fails)
    sounds = vocoder._run_batch(chunks(streams, 2))
    assert isinstance(sounds[1], RuntimeError)
    assert all(near(sounds[who], alone[who][2][1]) for who in (0, 2))


@ONE_RELEASE
def test_a_chunk_that_fails_is_an_error_of_the_engine(
    vocoder: Token2WavVocoder, voices: list[VoiceState], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session goes on, and its next turn begins anew."""

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("no memory left")

    voice = voices[0]
    vocoder.reset(voice)
    with monkeypatch.context() as failing:
        failing.setattr(vocoder._flow, "advance", fails)
        with pytest.raises(EngineError, match="the vocoder cannot speak: no memory left"):
            vocoder.synthesize(voice, UNITS[0][0], last=True)
    assert voice.waiting == list(SILENT_PREFIX)
    with monkeypatch.context() as failing:
        failing.setattr(vocoder._inner, "_prepare_prompt", fails)
        with pytest.raises(EngineError, match="cannot take the reference voice: no memory left"):
            vocoder.clone(WAVES[0])


def test_too_short_a_reference_is_refused(vocoder: Token2WavVocoder) -> None:
    least = round(LEAST_REFERENCE_S * INPUT_RATE)
    vocoder.clone(WAVES[0][:least])
    with pytest.raises(InputRefused, match=r"at least 0\.2 s"):
        vocoder.clone(WAVES[0][: least - 1])


@ONE_RELEASE
def test_unknown_codes_are_refused_without_a_change(
    vocoder: Token2WavVocoder, voices: list[VoiceState], alone: list[Any]
) -> None:
    voice = voices[0]
    vocoder.reset(voice)
    for code in (CODES, -1):
        with pytest.raises(EngineError, match=f"codes below {CODES}, not {code}"):
            vocoder.synthesize(voice, [7, code], last=False)
    assert near(vocoder.synthesize(voice, UNITS[0][0], last=False), alone[0][0][1])
    vocoder.reset(voice)


@ONE_RELEASE
def test_a_short_second_is_padded_with_silence_on_the_left(
    vocoder: Token2WavVocoder, voices: list[VoiceState]
) -> None:
    voice = voices[0]
    vocoder.reset(voice)
    assert len(vocoder.synthesize(voice, [1, 2, 3], last=False)) == 0
    second = vocoder.synthesize(voice, [4, 5, 6], last=False)
    assert len(second) == OUTPUT_RATE
    assert not second[: OUTPUT_RATE // 2].any()
    assert len(vocoder.synthesize(voice, [], last=True)) > 0
    assert voice.waiting == list(SILENT_PREFIX)


@ONE_RELEASE
def test_states_in_half_the_memory_sound_the_same(
    vocoder: Token2WavVocoder, voices: list[VoiceState]
) -> None:
    """A complete turn, whose states are retained in float16, beside one in float32."""
    half = Token2WavVocoder(vocoder._inner, CPU, voice_seconds=5)
    exact, rounded = voices[2], half.clone(WAVES[2])
    assert exact.base.flow.solver.attention.dtype == torch.float32
    assert rounded.base.flow.solver.attention.dtype == torch.float16
    vocoder.reset(exact)
    largest = 0.0
    for codes in UNITS[2]:
        last = codes is UNITS[2][-1]
        want, got = (
            v.synthesize(s, codes, last=last) for v, s in ((vocoder, exact), (half, rounded))
        )
        largest = max(largest, float(np.abs(want - got).max()))
    half.close()
    assert 0 < largest < 1e-3


def speaks_with_a_new_voice(vocoder: Token2WavVocoder) -> None:
    """A turn, during which another session clones its voice, which then speaks too."""
    first = vocoder.clone(WAVES[0]).base.copy()
    vocoder._run_batch([CodeChunk(first, *TURNS[0][0])])
    second = vocoder.clone(WAVES[1]).base.copy()
    sounds = vocoder._run_batch([CodeChunk(first, *TURNS[0][1]), CodeChunk(second, *TURNS[1][0])])
    assert not [sound for sound in sounds if isinstance(sound, Exception)], sounds


def test_a_voice_is_cloned_on_a_stream_of_its_own(
    vocoder: Token2WavVocoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Synthesis reads a voice when it exists, and the voice's memory is not reused before that."""
    with ordered_streams(monkeypatch):
        on_gpu = Token2WavVocoder(vocoder._inner, torch.device("cuda", 0), voice_seconds=5)
        speaks_with_a_new_voice(on_gpu)
        assert on_gpu._cloning_stream is not on_gpu._stream
        flow = on_gpu.clone(WAVES[0]).base.flow
        for tensor in (flow.speaker, *flow.solver, flow.encoder.codes, flow.encoder.convs):
            assert OrderedStream.kept[tensor.untyped_storage()] == {on_gpu._stream}
        on_gpu.close()
    with ordered_streams(monkeypatch, left_out="synchronize"):
        on_gpu = Token2WavVocoder(vocoder._inner, torch.device("cuda", 0), voice_seconds=5)
        with pytest.raises(EngineError, match="reads what another stream writes"):
            speaks_with_a_new_voice(on_gpu)
        on_gpu.close()


@ONE_RELEASE
def test_products_in_tf32_change_the_mel_by_less_than_a_thousandth(
    vocoder: Token2WavVocoder, voices: list[VoiceState]
) -> None:
    """A voice of 4.4 s. The bound of the check at load is 0.005."""
    flow, codes = vocoder._flow, [TURNS[2][0][0]]
    with torch.inference_mode():
        exact = flow.advance(codes, [voices[2].base.flow], ends=False).mel
        with Tf32():
            rounded = flow.advance(codes, [voices[2].base.flow], ends=False).mel
    error = float((rounded - exact).abs().max() / exact.abs().max())
    assert 1e-5 < error < 1e-3


class Tf32(TorchDispatchMode):
    """Rounds the factors of all products to ten bits of mantissa."""

    def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket in PRODUCTS:
            args = tuple(map(ten_bits, args))
        return func(*args, **kwargs or {})


def ten_bits(value: Any) -> Any:
    if not isinstance(value, torch.Tensor) or value.dtype != torch.float32:
        return value
    bits = value.contiguous().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)


@ONE_RELEASE
def test_only_the_configured_seconds_of_a_voice_are_cloned(
    vocoder: Token2WavVocoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    sounds: list[int] = []

    def prepare(path: str) -> Any:
        sounds.append(len(soundfile.read(path)[0]))
        raise EngineError("enough audio")

    monkeypatch.setattr(vocoder._inner, "_prepare_prompt", prepare)
    with pytest.raises(EngineError, match="enough audio"):
        vocoder.clone(np.zeros(20 * INPUT_RATE, dtype=np.float32))
    assert sounds == [len(cut_reference(np.zeros(20 * INPUT_RATE, dtype=np.float32), 5))]


@ONE_RELEASE
def test_the_warm_up_speaks_or_reports_what_is_missing(
    vocoder: Token2WavVocoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    vocoder.warm_up(2)
    monkeypatch.setattr(vocoder._inner.flow.encoder, "up_layer", None)
    with pytest.raises(EngineLoadError, match="the vocoder cannot speak: "):
        vocoder.warm_up(2)


@ONE_RELEASE
def test_an_incompatible_package_is_reported(
    vocoder: Token2WavVocoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(vocoder._inner.flow.decoder.estimator, "t_embedder")
    with pytest.raises(AttributeError, match="t_embedder"):
        Token2WavVocoder(vocoder._inner, CPU, voice_seconds=6)


def test_a_release_with_other_results_is_reported(
    package: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    vocoder = Token2WavVocoder(package, CPU, voice_seconds=6)
    vocoder.check()
    monkeypatch.setattr(package.flow.decoder, "inference_cfg_rate", 0.5)
    with pytest.raises(EngineLoadError, match="computes another mel"):
        vocoder.check()
