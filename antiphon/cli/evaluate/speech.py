"""What the callers of `antiphon evaluate` say, the voices that say it, its recordings, and how loud sounds are.

`tools/make_evaluation_speech.py` has recorded each sentence. After a change of one, run it again.
"""

import functools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import orjson
from numpy.typing import NDArray

from antiphon.client.sound import load_wav
from antiphon.shared_schemas.audio import INPUT_RATE, Samples

CALLERS = (
    *("heart", "en-us+Hugo", "george", "bella", "michael"),
    *("en-gb-x-rp", "emma", "fenrir", "isabella", "fable"),
)
"""Eight voices of Kokoro and two of eSpeak NG."""

RECORDED = "two_cities"
"""A recording that is not ours: somebody reads a novel aloud."""

QUESTIONS = (
    "What is the capital of Italy?",
    "How many legs does a spider have?",
    "Why is the sky blue?",
    "What do bees make?",
    "What is the largest planet?",
    "How many days are there in a week?",
    "Can you tell me what the opposite of hot is?",
    "What should I cook for dinner tonight?",
    "What is the capital of Germany?",
    "Where do penguins live?",
    "What is the largest ocean on Earth?",
    "How do I boil an egg?",
    "What color do you get from blue and yellow?",
    "How many months does a year have?",
    "Which animal is the fastest on land?",
    "What is the capital of Japan?",
    "Why do leaves fall in autumn?",
    "What can I do when it rains on Sunday?",
    "How are you today?",
    "What is a good name for a cat?",
)

LONG_REQUESTS = (
    "Tell me a story about a dog and a cat.",
    "Explain to me how bees make honey.",
    "Tell me about the history of Rome.",
    "Tell me a long story about a pirate.",
    "Explain to me how a car engine works.",
    "Tell me everything about the moon.",
    "Tell me a story about a lighthouse.",
    "Explain to me how rain is made.",
    "Tell me about life in the ocean.",
    "Tell me a story about a brave child.",
    "Tell me a story about an old train.",
    "Explain to me how bread is made.",
    "Tell me about the planets.",
    "Tell me a story about a farmer and a fox.",
    "Explain to me why birds fly south in winter.",
    "Tell me about the city of London.",
    "Tell me a story about two friends.",
    "Explain to me how a computer works.",
    "Tell me about elephants.",
    "Tell me a long story about a king.",
)
"""Their answers are long enough for something to happen in them."""

PAUSED = (
    "My question is about the city of | Florence.",
    "Could you please tell me | who painted the Mona Lisa?",
    "What is the name of the | river that flows through Paris?",
    "I would like to know | how tall a giraffe is.",
    "If it rains tomorrow, | what should I do?",
    "How long does it take to | learn the piano?",
    "The thing I wanted to ask is | where tea comes from.",
    "What is the difference between | butter and margarine?",
    "Do you know how to | make a paper plane?",
    "I was thinking about | buying a bicycle.",
    "What happens when | you mix red and white?",
    "Because my sister visits me, | I need a recipe for a cake.",
    "Which one of the | seas is the warmest?",
    "Is it really true that | bats cannot see?",
    "Tell me, um, | what is a good book for children?",
    "How do I get from here to | the nearest station?",
    "I read yesterday that | whales can sing.",
    "Please give me the names of | three large rivers.",
    "When I was in Spain, | I saw an old castle.",
    "What is twelve plus | thirty?",
)
"""Spoken with a pause at the bar."""

INTERRUPTIONS = (
    "Wait, what is the capital of Spain?",
    "Stop. How many legs does a cat have?",
    "Hold on, I have another question.",
    "Actually, tell me what day it is today.",
    "No, that is not what I meant.",
    "Sorry, can you tell me a joke instead?",
    "Stop, please. What is your name?",
    "Excuse me, what is two plus three?",
    "That is enough. What color is the sun?",
    "Wait a moment, where do kangaroos live?",
    "Okay, but what about the weather?",
    "Can I ask you something else?",
    "Stop it. Let us talk about music.",
    "One moment, how much is ten minus four?",
    "No, no, tell me about horses.",
    "Please be quiet for a moment.",
    "I already know that. What else is there?",
    "Hang on, who wrote Hamlet?",
    "Let me ask you about football.",
    "What time is it now?",
)

BACKCHANNELS = (
    *("Mm-hmm.", "Yeah.", "Uh-huh.", "Okay.", "Right.", "I see.", "Sure.", "Mm.", "Oh.", "Yes."),
    *("Yeah.", "Mm-hmm.", "Okay.", "Uh-huh.", "Oh, okay.", "Right, right.", "Wow.", "Aha.", "Mm."),
    "Yeah, yeah.",
)

FILLERS = ("Um.", "Uh.", "Hmm.", "Er.", "Um.", "Uh.", "Hmm.", "Um.", "Er.", "Uh.")

ASIDES = (
    "Did you see my keys anywhere?",
    "Dinner is ready in ten minutes.",
    "Can you turn the television down, please?",
    "I am going to the shop. Do you need anything?",
    "The parcel for you has arrived.",
    "Where did you put the scissors?",
    "Mum called, she will come on Sunday.",
    "Have you fed the dog already?",
    "We have to leave at seven o'clock.",
    "Who left the window open?",
)
"""What another person in the room says to somebody else."""


def spoken_by(caller: int) -> Iterator[str]:
    """All sentences that this caller says."""
    for sentences in (
        QUESTIONS,
        LONG_REQUESTS,
        PAUSED,
        INTERRUPTIONS,
        BACKCHANNELS,
        FILLERS,
        ASIDES,
    ):
        yield from dict.fromkeys(sentences[caller :: len(CALLERS)])


FOLDER = Path(__file__).parents[1] / "assets" / "evaluate"

USER_DBFS = -24.0
"""The level of a caller while speaking."""

_BLOCK = INPUT_RATE // 50
_QUIETEST_DB = 25.0
"""A block this far below the loudest one is a pause."""


@functools.cache
def _index() -> dict[str, dict[str, tuple[int, int, int]]]:
    index: dict[str, dict[str, tuple[int, int, int]]] = orjson.loads(
        (FOLDER / "index.json").read_bytes()
    )
    return index


@functools.cache
def _recording(voice: str) -> Samples:
    return load_wav(FOLDER / f"{voice}.opus")


def sentences_of(voice: str) -> tuple[str, ...]:
    """All sentences of a voice."""
    return tuple(_index()[voice])


def say(text: str, voice: str, dbfs: float = USER_DBFS) -> Samples:
    """A recorded sentence, float32 mono at 16 kHz, without silence around it."""
    before, after = _halves(text, voice, dbfs)
    return np.concatenate([before, after])


def say_halves(text: str, voice: str) -> tuple[Samples, Samples]:
    """A sentence with a bar: what comes before and after the pause."""
    return _halves(text, voice, USER_DBFS)


def _halves(text: str, voice: str, dbfs: float) -> tuple[Samples, Samples]:
    """Some voices breathe after a sentence: that is no part of the turn, whose end is measured."""
    begin, end, pause = _index()[voice][text]
    whole = at_level(_recording(voice)[begin:end], dbfs)
    active = np.flatnonzero(_active(_powers(whole)))
    first, last = max(0, active[0] - 1) * _BLOCK, (active[-1] + 2) * _BLOCK
    cut = max(first, pause - begin if pause else first)
    return whole[first:cut], whole[cut:last]


def at_level(samples: Samples, dbfs: float) -> Samples:
    """The sound with this RMS level, of those parts that are no pauses."""
    return (samples * np.float32(10 ** (dbfs / 20) / active_rms(samples))).astype(np.float32)


def active_rms(samples: Samples) -> float:
    powers = _powers(samples)
    return float(np.sqrt(powers[_active(powers)].mean()))


def _powers(samples: Samples) -> NDArray[np.float64]:
    """Of each block."""
    count = -(-len(samples) // _BLOCK)
    blocks = np.pad(samples, (0, count * _BLOCK - len(samples))).reshape(count, _BLOCK)
    powers: NDArray[np.float64] = np.square(blocks, dtype=np.float64).mean(axis=1)
    return powers


def _active(powers: NDArray[np.float64]) -> NDArray[np.bool_]:
    active: NDArray[np.bool_] = powers >= powers.max() * 10 ** (-_QUIETEST_DB / 10)
    return active
