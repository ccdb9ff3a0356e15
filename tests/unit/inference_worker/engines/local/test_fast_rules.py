"""The work that a text takes: patterns that do not try all ways, and a limit on the turns before."""

import subprocess
import sys

import pytest

from antiphon.inference_worker.engines.local.rules import follow_up, references
from antiphon.inference_worker.engines.local.rules.follow_up import whole_question
from antiphon.inference_worker.engines.local.rules.text import plain

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
)


def test_rules_answer_any_text_in_time() -> None:
    subprocess.run([sys.executable, "-c", _ANSWER, *TEXTS], check=True, timeout=_ENDS)


def test_each_of_the_last_turns_is_read_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def reads(text: str) -> str:
        read.append(text)
        return plain(text)

    monkeypatch.setattr(references, "plain", reads)
    monkeypatch.setattr(follow_up, "plain", reads)
    earlier = [f"What is the capital of the country {turn}?" for turn in range(400)]
    assert whole_question("And of Italy?", [*earlier, "What is the capital of Peru?"]) == (
        "What is the capital of Italy?"
    )
    assert len(read) < 100
