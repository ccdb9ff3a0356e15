"""What an interrupted answer goes on with, and when a silent session asks for the user."""

import pytest

from antiphon.inference_worker.engines.local.conversation import CheckIn
from antiphon.inference_worker.engines.local.rules.follow_up import rest_to_continue

REST = "and they lived happily."


@pytest.mark.parametrize(
    "text",
    [
        *("Go on.", "Please continue.", "Okay, go on, please.", "And then?"),
        *("What happened next?", "Can you go on with the story?", "Where were we?", "Carry on"),
    ],
)
def test_words_that_ask_for_the_rest(text: str) -> None:
    assert rest_to_continue([{"role": "user", "content": text}], REST) == REST
    assert rest_to_continue([{"role": "user", "content": text}], "") == ""


@pytest.mark.parametrize("text", ["Go away.", "Tell me another story.", "What is next to Spain?"])
def test_other_words_do_not(text: str) -> None:
    assert rest_to_continue([{"role": "user", "content": text}], REST) == ""


def asked(check_in: CheckIn, units: int, *, silent: bool = True) -> list[str]:
    """What is asked in so many units of a second."""
    return [text for _ in range(units) if (text := check_in.passed(1.0, silent=silent))]


def test_a_silent_session_asks_twice_at_most_after_the_user_has_spoken() -> None:
    check_in = CheckIn(5.0)
    assert asked(check_in, 30) == []
    check_in.user_said("Hello.")
    assert asked(check_in, 4) == []
    assert len(asked(check_in, 1)) == 1
    assert asked(check_in, 3, silent=False) == []
    assert len(asked(check_in, 100)) == 1
    check_in.user_said("Yes, I am here.")
    assert len(asked(check_in, 5)) == 1


@pytest.mark.parametrize(
    "text",
    [
        *("Hold on.", "Wait a moment, please.", "Let me think.", "Just a second."),
        *("等一下，我去拿。", "等等。", "你等会儿。", "等我一下", "稍等！", "请稍候", "让我想想。"),
        *("我马上回来。", "给我一分钟。", "先别急。", "讓我想想"),
    ],
)
def test_a_session_waits_for_a_user_who_asks_for_time(text: str) -> None:
    check_in = CheckIn(5.0)
    check_in.user_said(text)
    assert asked(check_in, 100) == []
    check_in.user_said("Here I am.")
    assert len(asked(check_in, 5)) == 1


def test_without_the_setting_nothing_is_asked() -> None:
    check_in = CheckIn(0.0)
    check_in.user_said("Hello.")
    assert asked(check_in, 1000) == []
