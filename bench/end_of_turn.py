"""When the engine `local` takes the end of a turn: pauses within a sentence, and the wait after whole turns.

    python bench/end_of_turn.py                  # both ways, units of one second
    python bench/end_of_turn.py --unit-ms 200

Ten voices say sentences with a pause of 0.8 to 1.2 s inside, and whole turns, at all phases of the grid of
units. The recogniser and the language model are the real ones; nothing depends on the clock. `fixed`
waits the same silence after all words, `by words` more or less by their completeness. Printed are the share of
pauses that the engine takes for the end, and the silence from the end of a turn to the unit whose end has it.
"""

import argparse
import statistics
import wave
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from antiphon.inference_worker.engines.local.conversation import Conversation
from antiphon.inference_worker.engines.local.hearing.speech_input import SpeechInput, endpoint_rules
from antiphon.inference_worker.engines.local.models import LocalModels, LocalSlot
from antiphon.inference_worker.engines.local.options import LocalOptions
from antiphon.inference_worker.engines.local.voices.catalogue import ESPEAK
from antiphon.shared_schemas.audio import INPUT_RATE, Samples
from antiphon.shared_schemas.config import DuplexConfig
from ten_voices import VOICES, TenVoices

PAUSED = (
    "My question is about the city of | Florence.",
    "What is the capital | of Italy?",
    "What is two plus | two?",
    "How do I get to | the main station from here?",
    "Can you tell me | why the sky is blue?",
    "I would like to know | how many days a year has.",
    "My name is | Alice, and I live in London.",
    "The thing is | I have never been to Paris.",
    "What is the difference between | a frog and a toad?",
    "If I leave at seven | when do I arrive?",
    "My sister lives in London with her | two children.",
    "Please tell me a story about | a dog and a cat.",
    "I am looking for | a good book about history.",
    "Do you know the name of the | largest ocean on Earth?",
    "So, um, | what is the weather like on Mars?",
    "I think that | we should begin with the first chapter.",
    "When I was young, | we lived near the sea.",
    "How many legs does a | spider have?",
    "I want to cook pasta and | I need a recipe.",
    "What should I do if | my phone does not start?",
    "Explain to me how | bees make honey.",
    "Who wrote the play | Romeo and Juliet?",
    "Is it true that | cats always land on their feet?",
    "Because the train was late | I missed the meeting.",
    "Give me the names of three | famous painters.",
    "What is seventeen times | twenty-three?",
    "Let us talk about | the planets.",
    "Which animal is | the fastest on land?",
    "I need to | buy a present for my mother.",
    "How far is the | moon?",
)
"""With these and WHOLE, the limits and the words of `completeness.py` were chosen."""

NEW_PAUSED = (
    "I read in the newspaper that | the river has frozen.",
    "What happens when | water gets very cold?",
    "Could you explain | how a computer works?",
    "My favourite colour is | green.",
    "Tell me something about | the history of Rome.",
    "Why do so many | birds fly south in winter?",
    "The last time I saw him, | he was working in a bank.",
    "I was wondering | whether you know any jokes.",
    "How long does it take to | boil an egg?",
    "We are planning a trip to | Scotland in the summer.",
    "What is the best way to | learn a language?",
    "Do you think it is | too late for coffee?",
    "Which of the | planets has rings?",
    "My brother and I | play chess on Sundays.",
    "Can you help me with | my homework?",
    "Where can I buy | fresh bread on Sunday?",
    "The capital of | Spain is Madrid.",
    "I have a | question about music.",
    "What does the word | honest mean?",
    "Who was the first | man on the moon?",
)
"""Written after the choice, as NEW_WHOLE."""

WHOLE = (
    "What is two plus two?",
    "Why is the sky blue?",
    "What is seventeen times twenty-three?",
    "What is the capital of Italy?",
    "How many legs does a spider have?",
    "Who wrote Romeo and Juliet?",
    "Tell me a joke.",
    "What time is it?",
    "How are you today?",
    "What is your name?",
    "Can you help me?",
    "Tell me a story about a dog and a cat.",
    "What should I cook tonight?",
    "How do bees make honey?",
    "Which animal is the fastest on land?",
    "I would like to learn French.",
    "My name is Alice.",
    "I live in London.",
    "Thank you very much.",
    "That is all.",
    "What is the largest ocean on Earth?",
    "How far is the moon?",
    "Explain how a rainbow is made.",
    "Do you like music?",
    "Please speak a little slower.",
    "What day is it today?",
    "Yes, please.",
    "No, thank you.",
    "Good morning.",
    "What do you think about that?",
    "Where are you from?",
    "What are you looking at?",
    "How old are you?",
    "What is it for?",
)

NEW_WHOLE = (
    "What happens when water gets very cold?",
    "Could you explain how a computer works?",
    "My favourite colour is green.",
    "Tell me something about the history of Rome.",
    "Why do birds fly south in winter?",
    "Do you know any good jokes?",
    "How long does it take to boil an egg?",
    "What is the best way to learn a language?",
    "Which planet has rings?",
    "Can you help me with my homework?",
    "Where can I buy fresh bread on Sunday?",
    "What does the word honest mean?",
    "Who was the first man on the moon?",
    "What is nine times nine?",
    "I have a question.",
    "Let us play a game.",
    "I am a little tired today.",
    "Please say that again.",
    "How do you spell the word necessary?",
    "Who are you talking to?",
)

_LEAD_MS = 300
_PAUSES_MS = (800, 900, 1000, 1100, 1200)
_LATEST_MS = 6000


@dataclass(frozen=True, slots=True)
class Turn:
    """`audio` before a pause or the end of the turn, and what follows in it."""

    audio: Samples
    pause_ms: int
    label: str


class Ears:
    """Feeds one turn at a time to a new session."""

    def __init__(self, slot: LocalSlot, unit_ms: int) -> None:
        self._slot = slot
        self._unit_ms = unit_ms
        self._rules = endpoint_rules(slot.options.end_silence_ms, 1.0)

    def silence_ms(self, turn: Turn, phase: int, *, by_words: bool) -> tuple[float | None, str]:
        """The silence after which the turn ends, None if the pause is over before; and its text."""
        conversation = Conversation(self._slot, DuplexConfig(), "You are a helpful assistant.")
        speech = SpeechInput(self._slot.models.recogniser, self._rules)
        lead = (_LEAD_MS + phase) * INPUT_RATE // 1000
        rest = (turn.pause_ms or _LATEST_MS) * INPUT_RATE // 1000
        audio = np.concatenate([np.zeros(lead, np.float32), turn.audio, np.zeros(rest, np.float32)])
        size = self._unit_ms * INPUT_RATE // 1000
        for at in range(0, len(audio) - size + 1, size):
            patience = conversation.patience if by_words else None
            said = speech.feed(audio[at : at + size], patience)
            if said.text:
                ended = at + size - lead - len(turn.audio)
                return ended * 1000 / INPUT_RATE, said.text
        return None, speech.likely_utterance().text


def paused_turns(voices: TenVoices, texts: Iterable[str]) -> Iterator[Turn]:
    for number, text in enumerate(texts):
        first, _, rest = text.partition(" | ")
        for voice in _two_voices(number):
            before, _ = voices.speak(f"{first} {rest}", voice).halves(len(first.split()))
            pause_ms = _PAUSES_MS[number % len(_PAUSES_MS)]
            yield Turn(before, pause_ms, f"{voice}: {text}")


def whole_turns(voices: TenVoices, texts: Iterable[str]) -> Iterator[Turn]:
    for number, text in enumerate(texts):
        for voice in _two_voices(number):
            yield Turn(voices.speak(text, voice).audio, 0, f"{voice}: {text}")


def recorded_turns() -> Iterator[Turn]:
    folder = Path(__file__).parents[1]
    for path in (folder / "antiphon/cli/assets/question.wav",):
        with wave.open(str(path)) as file:
            assert file.getframerate() == INPUT_RATE
            raw = np.frombuffer(file.readframes(file.getnframes()), np.int16)
        audio = (raw / np.float32(32768)).astype(np.float32)
        audible = np.flatnonzero(np.abs(audio) > 0.02)
        yield Turn(audio[audible[0] : audible[-1]], 0, path.name)


def _two_voices(number: int) -> tuple[str, str]:
    return VOICES[number % len(VOICES)], VOICES[(3 * number + 5) % len(VOICES)]


def measure(ears: Ears, turns: list[Turn], phases: list[int], *, by_words: bool, loud: bool) -> str:
    """A cell of the table: how many turns ended, and after how much silence."""
    found: list[float] = []
    count = 0
    for number, turn in enumerate(turns):
        for phase in phases[number % 2 :: 2]:
            count += 1
            ended, text = ears.silence_ms(turn, phase, by_words=by_words)
            if ended is not None:
                found.append(ended)
            if loud:
                print(f"    {ended or 0:6.0f} ms  {turn.label}  ->  {text}", flush=True)
    share = f"{len(found)} of {count} ({len(found) / count:.2f})"
    if not found:
        return share
    worst = statistics.quantiles(found, n=10)[8] if len(found) > 1 else found[0]
    return f"{share}, mean {statistics.fmean(found):.0f} ms, p90 {worst:.0f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--unit-ms", type=int, default=1000)
    parser.add_argument("--phases", type=int, default=4, help="of the grid; each turn gets half")
    parser.add_argument("--group", default="", help="begin of the name of the groups to measure")
    parser.add_argument("--by-words", action="store_true", help="not with a fixed silence too")
    parser.add_argument("--verbose", action="store_true", help="each turn")
    asked = parser.parse_args()
    voices = TenVoices()
    groups: dict[str, Callable[[], Iterable[Turn]]] = {
        "pauses": lambda: paused_turns(voices, PAUSED),
        "pauses, new sentences": lambda: paused_turns(voices, NEW_PAUSED),
        "whole turns": lambda: whole_turns(voices, WHOLE),
        "whole turns, new": lambda: whole_turns(voices, NEW_WHOLE),
        "recordings": recorded_turns,
    }
    phases = [asked.unit_ms * phase // asked.phases for phase in range(asked.phases)]
    options = LocalOptions(slots=1, voice=ESPEAK)
    models = LocalModels.load(options, lambda _: None)
    ears = Ears(LocalSlot(0, options, ThreadPoolExecutor(3), models), asked.unit_ms)
    for name, speak in groups.items():
        if not name.startswith(asked.group):
            continue
        turns = list(speak())
        for by_words in (True,) if asked.by_words else (False, True):
            cell = measure(ears, turns, phases, by_words=by_words, loud=asked.verbose)
            print(f"{name:<22} {'by words' if by_words else 'fixed':<9} ended: {cell}", flush=True)
    models.close()


if __name__ == "__main__":
    main()
