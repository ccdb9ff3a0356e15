"""The work that a text takes: patterns that do not try all ways, and a limit on the turns before."""

import subprocess
import sys
import time

import pytest

from antiphon.inference_worker.engines.local.dialogue import LlmMessage
from antiphon.inference_worker.engines.local.options import LocalOptions
from antiphon.inference_worker.engines.local.processor import LocalProcessor
from antiphon.inference_worker.engines.local.recall import recalled
from antiphon.inference_worker.engines.local.rules import follow_up
from antiphon.inference_worker.engines.local.rules.follow_up import (
    rest_to_continue,
    whole_question,
)
from antiphon.inference_worker.engines.local.rules.text import peeled, plain
from antiphon.inference_worker.engines.local.self_knowledge import SelfKnowledge
from antiphon.inference_worker.engines.types import ContextFull
from antiphon.shared_schemas.config import ChatOptions
from antiphon.shared_schemas.content import ConversationMessage, Role, TextPart

_ENDS = 600
"""Seconds for a process on a busy machine; doubling takes longer."""

_ANSWER = """
import sys
from datetime import UTC, datetime
from antiphon.inference_worker.engines.local.rules.answer import answer
from antiphon.inference_worker.engines.local.rules.situation import Situation
for text in sys.argv[1:]:
    answer(text, Situation(datetime(2026, 11, 28, tzinfo=UTC), "1"))
"""


def _filled(begin: str, repeated: str, end: str) -> str:
    """The longest text of this form that rules still read."""
    return begin + repeated * ((200 - len(begin) - len(end)) // len(repeated)) + end


TEXTS = (
    _filled("what is the weather", " in a", " b("),
    _filled("what is the news", " for a", " b("),
    _filled("what is on tv", " at a", " b("),
    _filled("what is the traffic", " in a", " b("),
    _filled("thanks", " for a", "("),
    _filled("i", " have just", " j("),
    _filled("read the text", " out to me", " ("),
    _filled("", "good night ", "see you later later ("),
    _filled("thanks that is", " very", " ("),
    _filled("if ", "a ", "at 1 and it takes 1 hour when ("),
    _filled("how many hours ", "a ", "from 1 to ("),
    _filled("if ", "a ", "1 a and 2 a share it ("),
    _filled("have you ", "got have ", "a dog ("),
    _filled("tell me ", "a good ", "joke ("),
    _filled("is ", "the a of ", "in a ("),
    _filled("", "the a is ", "a, right?"),
    _filled("what did i say", " what did i say", "("),
    _filled("my dog what is", " is what is", "("),
    _filled("a, what", ", what is a", "("),
    _filled("yes", " yes i think", "("),
    _filled("you are", " so really", "("),
    _filled("how many times did i say", " is my", "("),
)


def test_rules_answer_any_text_in_time() -> None:
    subprocess.run([sys.executable, "-c", _ANSWER, *TEXTS], check=True, timeout=_ENDS)


def test_each_of_the_last_turns_is_read_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def reads(text: str) -> str:
        read.append(text)
        return plain(text)

    monkeypatch.setattr(follow_up, "plain", reads)
    earlier = [f"What is the capital of the country {turn}?" for turn in range(400)]
    assert whole_question("And of Italy?", [*earlier, "What is the capital of Peru?"]) == (
        "What is the capital of Italy?"
    )
    assert len(read) < 100


_MOST_S = 60.0
"""Of a processor that others use as well; a quadratic search takes minutes."""

LONG_TEXTS = tuple((part * 200_000)[:200_000] for part in ("and ", "no, ", " please", "1"))


@pytest.mark.parametrize("text", LONG_TEXTS, ids=("lead", "comma", "tail", "digits"))
def test_no_long_text_takes_long(text: str) -> None:
    begun = time.process_time()
    for question in ("Who is he?", "And 20%?"):
        for turns in ((text,), (text, "Yes.", question)):
            messages: list[LlmMessage] = [{"role": "system", "content": "Be brief."}]
            messages += [
                {"role": ("user", "assistant")[place % 2], "content": turn}
                for place, turn in enumerate(turns)
            ]
            assert recalled(messages)
            SelfKnowledge(LocalOptions()).answer(messages)
            rest_to_continue(messages, "and they lived happily.")
    assert time.process_time() - begun < _MOST_S


@pytest.mark.speech
def test_a_chat_refuses_a_long_text_at_once(local_engine: LocalProcessor) -> None:
    request = local_engine.set_chat_mode()
    long = ConversationMessage(Role.USER, (TextPart(100 * LONG_TEXTS[0]),))
    begun = time.process_time()
    with pytest.raises(ContextFull):
        request.prefill([long], ChatOptions())
    assert time.process_time() - begun < _MOST_S
    request.cleanup()


def test_polite_words_are_taken_from_both_ends() -> None:
    assert list(peeled("please tell me the time please then"))[-1] == "the time"
    assert list(peeled("")) == []
    assert len(list(peeled(LONG_TEXTS[0]))) < 100
