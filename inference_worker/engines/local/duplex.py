"""One full-duplex session of the local engine."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from antiphon.inference_worker.engines.common.barge_in import (
    BARGE_IN_MS,
    UserVoice,
    is_backchannel,
)
from antiphon.inference_worker.engines.common.costs import milliseconds_since
from antiphon.inference_worker.engines.local.clauses import words_of
from antiphon.inference_worker.engines.local.conversation import CheckIn, Conversation
from antiphon.inference_worker.engines.local.dialogue import Dialogue
from antiphon.inference_worker.engines.local.hearing.speech_input import (
    SpeechInput,
    UnitTranscription,
    endpoint_rules,
)
from antiphon.inference_worker.engines.local.models import LocalSlot
from antiphon.inference_worker.engines.local.reply import UnfinishedReply
from antiphon.inference_worker.engines.local.speech import TimedWord, UnitSpeech, Word
from antiphon.inference_worker.engines.processor import DuplexView
from antiphon.inference_worker.engines.types import EngineError, PastUnit, PrefillReport
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, SILENCE, Samples
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.entries import TextKind
from antiphon.shared_schemas.unit_result import TokenUsage, UnitResult

_WAIT_SHARE = 0.8
_MAX_WAIT_S = 0.8
"""`generate` waits for speech until _WAIT_SHARE of the unit's duration, at most _MAX_WAIT_S, after
its audio came. So a unit never takes longer than its audio."""

_NO_GAP_S = 0.02
"""A unit that begins so soon after the one before has waited for it."""


_LONGEST_PAUSE_S = 0.5
"""The longest silence for a voice that may be a cough: users take a longer one for the end of the answer."""

_INTERIM_SHARE = 0.5
"""A unit waits for the words of a user who still speaks for at most this share of its duration."""


_REPLAYED_SAMPLES = 30 * INPUT_RATE
"""Maximum audio of an unfinished utterance that is processed again."""


@dataclass(slots=True)
class _Unit:
    """A unit between its prefill and its generate."""

    begun: float
    came: float
    """When its audio came, as far as is known. Like `begun`, a value of time.perf_counter()."""
    seconds: float
    prefill_ms: float = 0.0
    interrupted: bool = False
    paused: bool = False
    """The voice in it may become speech: the model's next words wait."""
    ignored: UnitTranscription | None = None
    """Speech that did not interrupt the model, or that is probably noise."""
    memo: dict[str, Any] | None = None
    said_so_far: str | None = None

    @property
    def deadline(self) -> float:
        return self.came + min(_MAX_WAIT_S, _WAIT_SHARE * self.seconds)


class LocalDuplexView(DuplexView):
    """Feeds the user's audio to a conversation and takes one unit of its speech at a time.

    In its results, `n_tokens` counts the model tokens of the unit's text, `n_tts_tokens` the
    phonemes that begin in the unit's audio. `cost_llm_ms` and
    `cost_tts_ms` (the voice) are the time of background threads since the previous result;
    `cost_all_ms` is the wall time of this unit's prefill and generate.
    """

    detects_barge_in = True

    def __init__(self, slot: LocalSlot) -> None:
        self._slot = slot
        self._config = DuplexConfig()
        self._conversation: Conversation | None = None
        self._speech_input: SpeechInput | None = None
        self._unit: _Unit | None = None
        self._units = 0
        self._input_ms = 0.0
        self._texts: list[list[str]] = []
        """What was added since the last result, but for what waits to be said."""
        self._check_in = CheckIn(0.0)
        self._paused_s = 0.0
        """How long the voice that may become speech has made the answer wait."""
        self._is_playing = False
        """The unit before spoke, so the answer is still playing."""
        self._over_answer = False
        """The utterance that continues began while an answer was playing."""
        self._done = (0.0, 0.0)
        """When the audio after the last unit came, if it was in time; and when that unit was done."""

    def prepare(
        self,
        system_prompt: str,
        config: DuplexConfig,
        ref_audio: Samples | None = None,
        tts_ref_audio: Samples | None = None,
    ) -> int:
        """Read the system prompt; returns its length in tokens. Raises ContextFull if too long.

        Without a named voice, a reference recording selects the one nearest to it.
        """
        models = self._slot.models
        if config.generate_audio:
            reference = ref_audio if tts_ref_audio is None else tts_ref_audio
            voice = models.voices.choose(config.voice, reference)
            config = config.model_copy(update={"voice": voice})
        self._config = config
        rules = endpoint_rules(self._slot.options.end_silence_ms, config.listen_prob_scale)
        self._speech_input = SpeechInput(models.recogniser, rules, self._slot.pool)
        self._conversation = Conversation(self._slot, config, system_prompt)
        self._conversation.greet(words_of(config.greeting, self._slot.options.language))
        self._units, self._input_ms = 0, 0.0
        self._texts = []
        self._check_in = CheckIn(config.check_in_s)
        return self._conversation.prompt_tokens

    def prefill(
        self,
        audio: Samples,
        frames: Sequence[bytes] = (),
        max_slice_nums: int = 1,  # noqa: ARG002
    ) -> PrefillReport:
        """Add one unit of audio. If an utterance ends in it, a reply is made in the background.

        If an utterance has only probably ended, the reply is prepared but not spoken yet.
        """
        conversation, speech_input = self._prepared()
        unit = self._begin(len(audio) / INPUT_RATE)
        conversation.see(tuple(frames), unit.seconds)
        patience = None if conversation.speaking else conversation.patience
        transcription = speech_input.feed(audio, patience)
        self._react(conversation, speech_input, transcription, unit)
        if self._config.interim_transcripts:
            unit.said_so_far = ""
            if not conversation.speaking and not unit.interrupted:  # the interruption must not wait
                patience_s = _INTERIM_SHARE * unit.seconds
                unit.said_so_far = interim_text(speech_input, transcription, patience_s)
        self._input_ms += unit.seconds * 1000.0
        unit.prefill_ms = milliseconds_since(unit.begun)
        self._unit = unit
        return PrefillReport(cost_ms=unit.prefill_ms)

    def generate(self, force_listen: bool = False) -> UnitResult:
        """Listen or speak. Raises EngineError if the background work failed.

        With `force_listen`, words that were ignored count: the client is certain that the user speaks.
        """
        conversation, speech_input = self._prepared()
        unit, self._unit = self._unit, None
        if unit is None:
            raise EngineError("generate needs a prefilled unit")
        begun = time.perf_counter()
        must_listen = self._units < self._config.force_listen_count and not conversation.greeting
        silenced = force_listen or must_listen
        self._units += 1
        if silenced:
            conversation.interrupt()
        if force_listen and unit.ignored:
            self._user_said(conversation, unit.ignored, unit)
        speech = None
        if unit.paused and not silenced and conversation.speaking:
            speech = UnitSpeech((), SILENCE, 0, 0, last=False)
        elif not silenced and not unit.interrupted:
            samples = round(unit.seconds * OUTPUT_RATE)
            limit = self._config.max_new_speak_tokens_per_chunk
            speech = conversation.next_unit(samples, limit, unit.deadline)
        conversation.raise_failure()
        self._done = unit.came + unit.seconds, time.perf_counter()
        self._is_playing = speech is not None
        silent = speech is None and speech_input.silence_ms >= unit.seconds * 1000
        if question := self._check_in.passed(unit.seconds, silent=silent):
            conversation.check_in(question)
        return self._result(conversation, unit, speech, milliseconds_since(begun))

    def finalize(self) -> None:
        self._prepared()[0].finish_unit()

    def take_usage(self) -> TokenUsage:
        """Also of replies that were prepared and not spoken: the language model works ahead."""
        return self._slot.tokens.take()

    def replay(self, units: Sequence[PastUnit]) -> None:
        """Restore the dialogue from memos and texts, then the open utterance and the open reply."""
        conversation, speech_input = self._prepared()
        self._show_newest_frames(units, conversation)
        restore_dialogue(units, conversation.dialogue, conversation.add_text)
        for text in units[-1].memo.get("to_say", ()) if units else ():
            conversation.add_text(TextKind.COMMENTARY, text)
        self._units = len(units)
        self._input_ms = sum(self._duration_ms(unit) for unit in units)
        greeting = bool(units) and bool(units[-1].memo.get("greeting"))
        if units and not greeting:
            conversation.retract()
        if rest := unfinished_reply(units):
            conversation.resume(rest, greeting=greeting)
        if text := replay_audio(units, speech_input):
            conversation.interrupt()
            conversation.user_said(text)
        conversation.read_ahead()

    def _show_newest_frames(self, units: Sequence[PastUnit], conversation: Conversation) -> None:
        """What the camera showed last, and how long ago that was."""
        newest = max((place for place, unit in enumerate(units) if unit.frames), default=len(units))
        for unit in units[newest:]:
            conversation.see(unit.frames, self._duration_ms(unit) / 1000.0)

    def add_history(self, history: Sequence[tuple[TextKind, str]]) -> None:
        conversation, _ = self._prepared()
        for kind, text in history:
            conversation.add_text(kind, text)
        conversation.read_ahead()

    def add_text(self, kind: TextKind, text: str) -> None:
        self._prepared()[0].add_text(kind, text)
        if kind is not TextKind.COMMENTARY:
            self._texts.append([str(kind), text])

    def played(self, played_ms: float) -> None:
        self._prepared()[0].dialogue.set_played(played_ms)

    def stop(self) -> None:
        """Cancel the reply; from now on the session only listens."""
        conversation = self._conversation  # `cleanup` may remove it on another thread
        if conversation is not None:
            conversation.stop()

    def cleanup(self) -> None:
        self.stop()
        self._conversation = self._speech_input = None
        self._slot.close()

    @property
    def kv_cache_length(self) -> int:
        """Length of the context when the model last finished reading or writing."""
        return self._conversation.context_tokens if self._conversation is not None else 0

    @property
    def silence_ms(self) -> float | None:
        return self._speech_input.silence_ms if self._speech_input is not None else None

    def _begin(self, seconds: float) -> _Unit:
        """Without the wait of a unit that comes late, units that are behind would not catch up."""
        begun = time.perf_counter()
        next_came, done = self._done
        came = min(begun, next_came) if begun - done < _NO_GAP_S else begun
        return _Unit(begun, came, seconds)

    def _react(
        self,
        conversation: Conversation,
        speech_input: SpeechInput,
        transcription: UnitTranscription,
        unit: _Unit,
    ) -> None:
        asked, voice = conversation.has_asked, UserVoice.NONE
        if conversation.speaking:
            self._over_answer = True
            if self._config.barge_in:
                voice = speech_input.means(transcription, asked=asked)
            if voice is not UserVoice.SPEECH:
                unit.ignored = transcription
                unit.paused = self._may_pause(voice, unit.seconds)
                return
            conversation.interrupt()
            unit.interrupted, self._paused_s = True, 0.0
        only_listens = self._over_answer and not asked and is_backchannel(transcription.text)
        self._over_answer = self._is_playing or (self._over_answer and transcription.talking_ms > 0)
        if transcription.is_noise or only_listens:
            unit.ignored = transcription
        else:
            self._user_said(conversation, transcription, unit)
        expected = speech_input.likely_utterance()
        if self._over_answer and not asked and is_backchannel(expected.text):
            return
        if expected.text:
            conversation.prepare_reply(expected.text, doubtful=expected.doubtful)
        elif transcription.talking_ms >= BARGE_IN_MS:
            conversation.retract()
        else:
            conversation.begin_reply()

    def _may_pause(self, voice: UserVoice, seconds: float) -> bool:
        """Whether the model's words wait for a unit of this length."""
        if voice is UserVoice.NONE:
            self._paused_s = 0.0
            return False
        self._paused_s += seconds
        return self._paused_s <= _LONGEST_PAUSE_S

    def _user_said(
        self, conversation: Conversation, transcription: UnitTranscription, unit: _Unit
    ) -> None:
        if transcription.text:
            unit.memo = memo_of_input(transcription)
            self._check_in.user_said(transcription.text)
            conversation.user_said(transcription.text, doubtful=transcription.doubtful)

    def _result(
        self, conversation: Conversation, unit: _Unit, speech: UnitSpeech | None, generate_ms: float
    ) -> UnitResult:
        spent = conversation.costs.drain()
        memo = unit.memo or {}
        if conversation.greeting:
            memo = memo | {"greeting": True}
        if self._texts:
            memo, self._texts = memo | {"texts": self._texts}, []
        if to_say := conversation.to_say:
            memo = memo | {"to_say": to_say}
        common: dict[str, Any] = {
            "current_time": round(self._input_ms),
            "cost_llm_ms": spent.get("llm", 0.0),
            "cost_tts_ms": spent.get("tts", 0.0),
            "cost_all_ms": unit.prefill_ms + generate_ms,
            "kv_cache_length": conversation.context_tokens,
            "interim_user_text": unit.said_so_far,
        }
        if speech is None:
            return UnitResult(is_listen=True, memo=memo, **common)
        memo = memo | memo_of_speech(speech)
        if rest := conversation.unfinished():
            memo = memo | memo_of_unfinished(rest)
        if self._config.end_on_goodbye and speech.last and conversation.said_goodbye:
            memo = memo | {"goodbye": True}
        return UnitResult(
            is_listen=False,
            text=speech.text,
            audio=speech.audio,
            end_of_turn=speech.last,
            n_tokens=speech.tokens,
            n_tts_tokens=speech.phonemes,
            memo=memo,
            **common,
        )

    def _duration_ms(self, unit: PastUnit) -> float:
        if unit.audio is None:
            return float(self._config.chunk_ms)
        return len(unit.audio) / INPUT_RATE * 1000.0

    def _prepared(self) -> tuple[Conversation, SpeechInput]:
        if self._conversation is None or self._speech_input is None:
            raise EngineError("the session is not prepared")
        return self._conversation, self._speech_input


def interim_text(
    speech_input: SpeechInput, transcription: UnitTranscription, patience_s: float
) -> str:
    """What the user has said so far; empty for what is probably a cough."""
    text = speech_input.words_so_far(patience_s)
    return "" if replace(transcription, text=text).is_noise else text


# A unit's memo has these fields, each only if it applies:
# `user`: the transcript of utterances that ended in the unit;
# `until`: the sample of the unit's audio at which the last of them ended;
# `spoken_ms`: how long before the end of the unit they began and ended;
# `word_times`: on a speaking unit, [millisecond of its audio, text] of each word that begins in it;
# `sound_ms`: the duration of that audio;
# `rest`: on a speaking unit, [text, tokens] of each word that was generated but not spoken yet;
# `rest_spoken`: what is said for each of them; its text, if a worker without this field wrote the memo;
# `rest_glued`: the places of those without a space before them;
# `more`: whether the reply has further words;
# `texts`: [TextKind, text] of each text that was added before the unit, except what is to be said;
# `to_say`: the texts that wait to be said;
# `greeting`: whether the greeting is not complete yet;
# `goodbye`: on the last unit of an answer, whether it says goodbye, if the client asked for that.


def memo_of_input(transcription: UnitTranscription) -> dict[str, Any]:
    if not transcription.text:
        return {}
    spoken = {"spoken_ms": list(transcription.spoken_ms)} if transcription.spoken_ms else {}
    return {"user": transcription.text, "until": transcription.until, **spoken}


def memo_of_speech(speech: UnitSpeech) -> dict[str, Any]:
    return {"word_times": [list(piece) for piece in speech.pieces], "sound_ms": speech.sound_ms}


def memo_of_unfinished(rest: UnfinishedReply) -> dict[str, Any]:
    return {
        "rest": [[word.text, word.tokens] for word in rest.words],
        "rest_spoken": [word.spoken for word in rest.words],
        "rest_glued": [place for place, word in enumerate(rest.words) if word.glued],
        "more": rest.more,
    }


def restore_dialogue(
    units: Sequence[PastUnit],
    dialogue: Dialogue,
    add_text: Callable[[TextKind, str], None] = lambda *_: None,
) -> None:
    """`add_text` takes the texts that were added before each unit."""
    rest = ""
    for unit in units:
        if unit.played_ms is not None:
            dialogue.set_played(unit.played_ms)
        for kind, text in unit.memo.get("texts", ()):
            add_text(TextKind(kind), text)
        if unit.is_listen:
            dialogue.interrupt_turn(rest)
        if text := unit.memo.get("user"):
            dialogue.add_user_text(str(text))
        if unit.is_listen:
            continue
        words = unit.memo.get("word_times", [(0.0, unit.text)] if unit.text else [])
        pieces = [TimedWord(float(at_ms), str(text)) for at_ms, text in words]
        dialogue.add_spoken(pieces, float(unit.memo.get("sound_ms", 0.0)))
        rest = " ".join(str(text) for text, _ in unit.memo.get("rest", ()))
        if unit.end_of_turn:
            dialogue.end_turn()


def replay_audio(units: Sequence[PastUnit], speech_input: SpeechInput) -> str:
    """Feed the audio after the last recorded utterance to `speech_input` again.

    Returns the text of utterances that end in it, empty if none does. One that ends while the model
    speaks was no interruption, and noise does not count.
    """
    audio = _unprocessed_audio(units)
    transcriptions = [speech_input.feed(samples) for samples in audio]
    listened = [unit.is_listen for unit in units[len(units) - len(audio) :]]
    return " ".join(
        said.text
        for said, counts in zip(transcriptions, listened, strict=True)
        if said.text and counts and not said.is_noise
    )


def unfinished_reply(units: Sequence[PastUnit]) -> UnfinishedReply | None:
    """The rest of the reply that `units` end in; None if they do not end in a reply."""
    if not units or units[-1].is_listen or units[-1].end_of_turn:
        return None
    memo = units[-1].memo
    rest = memo.get("rest", ())
    spoken = memo.get("rest_spoken") or [text for text, _ in rest]
    glued = memo.get("rest_glued", ())
    words = tuple(
        Word(str(text), int(tokens), str(said), place in glued)
        for place, ((text, tokens), said) in enumerate(zip(rest, spoken, strict=True))
    )
    return UnfinishedReply(words, bool(memo.get("more", True)))


def _unprocessed_audio(units: Sequence[PastUnit]) -> list[Samples]:
    audio: list[Samples] = []
    total = 0
    for unit in reversed(units):
        if unit.audio is None or total >= _REPLAYED_SAMPLES:
            break
        audio.insert(0, unit.audio[int(unit.memo.get("until", 0)) :])
        total += len(audio[0])
        if "user" in unit.memo:
            break
    return audio
