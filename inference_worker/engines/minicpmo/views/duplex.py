"""A full-duplex conversation, as a worker thread uses it. Every call waits for the engine thread."""

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress

import numpy as np

from antiphon.inference_worker.engines.common.costs import TokenCounter
from antiphon.inference_worker.engines.common.pictures import read_picture
from antiphon.inference_worker.engines.minicpmo.conversations.duplex import (
    DuplexConversation,
    UnitOutcome,
    duplex_speech,
)
from antiphon.inference_worker.engines.minicpmo.conversations.replay import (
    PreparedUnit,
    memo_of,
    rebuild_context,
    unfinished_turn_codes,
)
from antiphon.inference_worker.engines.minicpmo.conversations.slot_lease import (
    EngineParts,
    SlotLease,
)
from antiphon.inference_worker.engines.minicpmo.conversations.text_context import (
    AudioInput,
    counting_input,
)
from antiphon.inference_worker.engines.minicpmo.preprocess.images import (
    SlicedImage,
    slice_image,
)
from antiphon.inference_worker.engines.minicpmo.preprocess.mel import clip_mels
from antiphon.inference_worker.engines.minicpmo.scheduling.engine import StepAbandoned
from antiphon.inference_worker.engines.minicpmo.token2wav.vocoder import VoiceState
from antiphon.inference_worker.engines.processor import DuplexView
from antiphon.inference_worker.engines.types import (
    EngineError,
    InputRefused,
    PastUnit,
    PrefillReport,
    UnsupportedContent,
)
from antiphon.shared_schemas.audio import INPUT_RATE, SILENCE, Samples
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.unit_result import TokenUsage, UnitResult

SILENT_SECOND: Samples = np.zeros(INPUT_RATE, dtype=np.float32)


class MiniCPMODuplexView(DuplexView):
    """One conversation in its slot."""

    def __init__(self, parts: EngineParts, lease: SlotLease) -> None:
        self._parts = parts
        self._lease = lease
        self._session: DuplexConversation | None = None
        self._voice: VoiceState | None = None
        self._tokens = TokenCounter()
        self._max_slices = 1

    def prepare(
        self,
        system_prompt: str,
        config: DuplexConfig,
        ref_audio: Samples | None = None,
        tts_ref_audio: Samples | None = None,
    ) -> int:
        """Feed the system prompt and set the voice. A second call starts over."""
        if config.chunk_ms != 1000:
            raise UnsupportedContent(
                "MiniCPM-o processes units of 1000 ms: chunk_ms must be 1000", "config.chunk_ms"
            )
        reference = tts_ref_audio if tts_ref_audio is not None else ref_audio
        self._voice = self._parts.clone_voice(reference) if config.generate_audio else None
        session = self._new_session(config)
        self._lease.clear()
        self._session = session
        reference_mels = clip_mels(ref_audio) if ref_audio is not None and len(ref_audio) else []
        prefix = f"<|im_start|>system\n{system_prompt}\n<|audio_start|>"
        suffix = "<|audio_end|><|im_end|>"
        with self._counting_input(session):
            return self._lease.run(session.prepare(prefix, suffix, reference_mels))

    def prefill(
        self, audio: Samples, frames: Sequence[bytes] = (), max_slice_nums: int = 1
    ) -> PrefillReport:
        """Feed one second of audio and its images. A unit may have images only."""
        began, session = time.perf_counter(), self._ready()
        # Nothing but the engine closes a unit whose speech has failed.
        self._lease.run(session.finalize())
        images = self._slice_frames(frames, max_slice_nums)
        mel = session.audio_input.push(audio) if len(audio) else None
        if mel is None and len(audio):
            if self._parts.options.fidelity == "upstream":
                self._lease.run(session.feed_without_audio(images))
            raise InputRefused("too little audio for a unit: it is kept for the next one")
        with self._counting_input(session, images):
            self._lease.run(session.prefill(mel, images))
        self._max_slices = max_slice_nums
        slices = sum(len(image.pixels) for image in images)
        return PrefillReport(
            cost_ms=(time.perf_counter() - began) * 1000,
            vision_slices=slices,
            vision_tokens=slices * self._parts.config.query_num,
        )

    def generate(self, force_listen: bool = False) -> UnitResult:
        session = self._ready()
        outcome = self._lease.run(session.generate(force_listen=force_listen))
        session.memo.max_slices = self._max_slices
        spoken = time.perf_counter()
        sound = self._synthesize(outcome)
        self._tokens.add(output_text=len(outcome.tokens), output_audio=len(outcome.codes))
        return UnitResult(
            is_listen=outcome.is_listen,
            text=outcome.text,
            audio=sound,
            end_of_turn=outcome.end_of_turn,
            current_time=session.units_prefilled,
            cost_llm_ms=outcome.cost_llm_ms,
            cost_tts_ms=outcome.cost_speech_ms,
            cost_token2wav_ms=(time.perf_counter() - spoken) * 1000,
            n_tokens=len(outcome.tokens),
            n_tts_tokens=len(outcome.codes),
            kv_cache_length=session.length,
            memo=session.memo.model_dump(),
        )

    def finalize(self) -> None:
        """Close the unit and slide the window if necessary. After `stop`, nothing is closed."""
        with suppress(StepAbandoned):
            self._lease.run(self._ready().finalize())

    def take_usage(self) -> TokenUsage:
        return self._tokens.take()

    def replay(self, units: Sequence[PastUnit]) -> None:
        """Rebuild the context of a conversation that another worker began.

        The vocoder also synthesizes the unfinished turn again, so that the next audio continues it.
        """
        session = self._ready()
        past = [self._prepare_unit(session, unit) for unit in units]
        self._lease.run(rebuild_context(session, past, self._parts.tokenizer.ids))
        if self._voice is not None and self._parts.vocoder is not None:
            for codes in unfinished_turn_codes([unit.memo for unit in past]):
                self._parts.vocoder.synthesize(self._voice, codes, last=False)

    def stop(self) -> None:
        self._lease.stop()

    def cleanup(self) -> None:
        self._session = self._voice = None
        self._lease.close()

    @property
    def kv_cache_length(self) -> int:
        return self._session.length if self._session is not None else 0

    def _synthesize(self, outcome: UnitOutcome) -> Samples:
        voice, vocoder = self._voice, self._parts.vocoder
        if voice is None or vocoder is None:
            return SILENCE
        if outcome.restarts_voice:
            vocoder.reset(voice)
        if outcome.is_listen:
            return SILENCE
        return vocoder.synthesize(voice, outcome.codes, last=outcome.end_of_turn)

    def _counting_input(
        self, session: DuplexConversation, images: Sequence[SlicedImage] = ()
    ) -> AbstractContextManager[None]:
        return counting_input(self._tokens, session, images, self._parts.config.query_num)

    def _ready(self) -> DuplexConversation:
        if self._session is None:
            raise EngineError("prepare must come first")
        return self._session

    def _new_session(self, config: DuplexConfig) -> DuplexConversation:
        parts, lease = self._parts, self._lease
        return DuplexConversation(
            lease.slot,
            parts.tokenizer,
            AudioInput(slot=lease.slot, capacity=parts.config.audio_config.max_source_positions),
            parts.new_speech_context(lease, duplex_speech(config)),
            config=config,
            options=parts.options,
            seed=lease.seed,
        )

    def _prepare_unit(self, session: DuplexConversation, unit: PastUnit) -> PreparedUnit:
        audio = unit.audio
        if audio is None and not unit.frames:
            audio = SILENT_SECOND
        mel = session.audio_input.push(audio) if audio is not None and len(audio) else None
        memo = memo_of(unit, self._parts.tokenizer)
        return PreparedUnit(mel, self._slice_frames(unit.frames, memo.max_slices), memo)

    def _slice_frames(self, frames: Sequence[bytes], max_slices: int) -> list[SlicedImage]:
        settings = self._parts.config.slice_config
        return [slice_image(read_picture(frame), settings, max_slices) for frame in frames]
