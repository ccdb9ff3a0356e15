"""What the user says over the end of an answer in half duplex."""

import pytest

from antiphon.inference_worker.engines.common.barge_in import Words
from antiphon.inference_worker.sessions.turn_listener import TurnListener
from support.synthetic_speech import spoken


@pytest.mark.parametrize("asks", [True, False])
def test_a_yes_over_the_end_of_an_answer_counts_after_a_question(asks: bool) -> None:
    listener = TurnListener(lambda _speech: Words("Yes."))
    listener.open(None)
    listener.answer_ends_at(0.0, asks=asks)
    assert not listener.feed(spoken("Yes.", lead_s=0.2))
    assert bool(len(listener.said())) is asks
