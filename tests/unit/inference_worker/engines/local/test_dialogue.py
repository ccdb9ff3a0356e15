import pytest

from antiphon.inference_worker.engines.local.chinese.script import said_in
from antiphon.inference_worker.engines.local.dialogue import (
    CUT,
    STYLE_HINT,
    Dialogue,
    LlmMessage,
    turn_tokens,
    without_faults,
)
from antiphon.inference_worker.engines.local.remote.faults import (
    CUT_OFF,
    FAULTS,
    NO_ANSWER,
    UNREACHABLE,
)
from antiphon.inference_worker.engines.local.speech import TimedWord


def turns(dialogue: Dialogue) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in dialogue.messages()[1:]]


def test_the_system_prompt_is_the_users_prompt_and_a_hint() -> None:
    (message,) = Dialogue("  You are a pirate. ").messages()
    assert message == {"role": "system", "content": f"You are a pirate. {STYLE_HINT}"}


def test_spoken_pieces_make_one_turn_and_end_turn_closes_it() -> None:
    dialogue = Dialogue("")
    dialogue.add_user_text("Hello")
    assert dialogue.unanswered
    dialogue.add_assistant_text("Hi")
    dialogue.add_assistant_text(" there.")
    dialogue.end_turn()
    assert not dialogue.unanswered
    assert turns(dialogue) == [("user", "Hello"), ("assistant", "Hi there.")]


def test_words_after_unanswered_words_continue_the_turn() -> None:
    dialogue = Dialogue("")
    dialogue.add_user_text("What is")
    dialogue.add_user_text("the capital?")
    assert turns(dialogue) == [("user", "What is the capital?")]


def test_expected_words_are_treated_as_said_and_leave_no_trace() -> None:
    dialogue = Dialogue("")
    dialogue.add_user_text("What is")
    (_, expected) = dialogue.messages(expected="the capital?")
    assert turns(dialogue) == [("user", "What is")]
    dialogue.add_user_text("the capital?")
    assert dialogue.messages()[1:] == [expected]


def test_expected_words_follow_only_the_played_part_of_the_answer() -> None:
    dialogue = Dialogue("")
    dialogue.add_user_text("Tell me.")
    dialogue.add_spoken([TimedWord(0.0, "Once"), TimedWord(900.0, " upon")], 1800.0)
    dialogue.end_turn()
    dialogue.set_played(500.0)
    expected = dialogue.messages(expected="Stop.")
    dialogue.add_user_text("Stop.")
    assert dialogue.messages() == expected
    assert turns(dialogue)[1] == ("assistant", "Once")


def test_unanswered_words_need_no_answer_until_more_are_said() -> None:
    dialogue = Dialogue("")
    dialogue.add_user_text("Mm.")
    dialogue.leave_unanswered()
    assert not dialogue.unanswered
    dialogue.add_user_text("Why?")
    assert dialogue.unanswered
    assert turns(dialogue) == [("user", "Mm. Why?")]


def test_a_partial_answer_extends_only_an_open_turn() -> None:
    dialogue = Dialogue("")
    dialogue.add_user_text("Count.")
    dialogue.add_assistant_text("One,")
    assert dialogue.messages(" two,")[-1]["content"] == "One, two,"
    dialogue.end_turn()
    assert dialogue.messages(" two,")[-1]["content"] == "One,"


def test_trim_drops_the_oldest_turns_and_begins_with_the_user() -> None:
    dialogue = Dialogue("system")
    for number in range(20):
        dialogue.add_user_text(f"question {number} " + "x" * 60)
        dialogue.add_assistant_text(f"answer {number} " + "y" * 60)
        dialogue.end_turn()
    assert not dialogue.trim(10_000)
    assert dialogue.trim(500)
    kept = turns(dialogue)
    assert kept[0][0] == "user"
    assert kept[-1][1].startswith("answer 19")
    assert 2 <= len(kept) < 20
    assert dialogue.messages()[0]["content"].startswith("system")


def test_a_chinese_character_counts_as_a_token() -> None:
    """Of 42 exchanges with 2,062 tokens, an estimate by letters counted 1,394."""
    english, chinese = turn_tokens("x" * 300), turn_tokens("你" * 300)
    assert chinese - english == 200
    assert turn_tokens("你好 abc") == turn_tokens("") + 2 + 4 / 3


def test_trim_keeps_the_last_words_at_any_length() -> None:
    dialogue = Dialogue("")
    dialogue.add_user_text("x" * 9000)
    dialogue.trim(100)
    assert len(turns(dialogue)) == 1


def spoken_answer() -> Dialogue:
    """Two seconds: "One, two" begins in the first, " three." in the second."""
    dialogue = Dialogue("")
    dialogue.add_user_text("Count.")
    dialogue.add_spoken([TimedWord(0.0, "One,"), TimedWord(600.0, " two,")], 1000.0)
    dialogue.add_spoken([TimedWord(500.0, " three.")], 1000.0)
    return dialogue


@pytest.mark.parametrize(
    ("played_ms", "remembered"),
    [
        (1, "One, —"),
        (600, "One, —"),
        (601, "One, two, —"),
        (1500, "One, two, —"),
        (1501, "One, two, three."),
        (9000, "One, two, three."),
    ],
)
def test_an_interrupted_answer_contains_the_played_words(played_ms: float, remembered: str) -> None:
    dialogue = spoken_answer()
    dialogue.set_played(played_ms)
    dialogue.interrupt_turn()
    assert turns(dialogue) == [("user", "Count."), ("assistant", remembered)]


def test_without_a_playback_report_everything_that_was_sent_counts() -> None:
    dialogue = spoken_answer()
    dialogue.interrupt_turn()
    dialogue.add_user_text("Stop.")
    assert turns(dialogue)[1] == ("assistant", "One, two, three.")


def test_a_late_playback_report_counts_and_the_newest_one_wins() -> None:
    dialogue = spoken_answer()
    dialogue.set_played(100)
    dialogue.interrupt_turn()
    dialogue.set_played(700)
    assert turns(dialogue)[-1] == ("assistant", "One, two, —")
    dialogue.add_user_text("Stop.")
    dialogue.set_played(9000)
    assert turns(dialogue)[-2] == ("assistant", "One, two, three.")


def test_an_open_or_completely_played_answer_is_whole() -> None:
    dialogue = spoken_answer()
    dialogue.set_played(100)
    assert dialogue.messages(" four")[-1]["content"] == "One, two, three. four"
    dialogue.end_turn()
    assert turns(dialogue)[-1] == ("assistant", "One, two, three.")
    dialogue.add_user_text("Wait.")  # the client was still playing: this interrupts the answer, too
    assert turns(dialogue)[1:] == [("assistant", "One,"), ("user", "Wait.")]


def test_user_messages_around_an_unplayed_answer_are_joined() -> None:
    dialogue = spoken_answer()
    dialogue.set_played(0)
    dialogue.interrupt_turn()
    dialogue.add_user_text("Never mind.")
    assert turns(dialogue) == [("user", "Count. Never mind.")]


def test_playback_reports_apply_to_the_last_answer_only() -> None:
    dialogue = spoken_answer()
    dialogue.end_turn()
    dialogue.add_user_text("Again.")
    dialogue.add_spoken([TimedWord(0.0, "Four,"), TimedWord(500.0, " five.")], 1000.0)
    dialogue.set_played(100)
    dialogue.interrupt_turn()
    assert [text for role, text in turns(dialogue) if role == "assistant"] == [
        "One, two, three.",
        "Four, —",
    ]


def test_an_answer_without_audio_cannot_be_played() -> None:
    dialogue = Dialogue("")
    dialogue.set_played(5)
    dialogue.add_user_text("Hello")
    dialogue.add_assistant_text("Hi there.")
    dialogue.set_played(0)
    dialogue.interrupt_turn()
    assert turns(dialogue)[-1] == ("assistant", "Hi there.")


def test_instructions_are_added_to_the_system_prompt() -> None:
    dialogue = Dialogue("Be kind.")
    before = dialogue.system_tokens
    dialogue.add_user_text("Hello")
    dialogue.add_instruction(" Speak of birds. ")
    assert [message["role"] for message in dialogue.messages()] == ["system", "user"]
    assert dialogue.messages()[0]["content"].endswith(" Speak of birds.")
    assert dialogue.system_tokens > before


def test_the_rest_of_an_answer_is_known_only_after_an_interruption() -> None:
    dialogue = spoken_answer()
    dialogue.set_played(700)
    assert dialogue.rest_of_cut_answer == ""
    dialogue.interrupt_turn("Four. Five.")
    assert dialogue.rest_of_cut_answer == "three. Four. Five."
    dialogue.add_user_text("Go on.")
    assert dialogue.rest_of_cut_answer == "three. Four. Five."
    dialogue.add_assistant_text("All right.")
    dialogue.end_turn()
    assert dialogue.rest_of_cut_answer == "three. Four. Five."
    dialogue.add_user_text("Go on.")
    dialogue.add_assistant_text("Three.")
    assert dialogue.rest_of_cut_answer == ""


def test_an_answer_may_be_interrupted_after_its_end() -> None:
    dialogue = spoken_answer()
    dialogue.end_turn()
    dialogue.interrupt_answer(700)
    assert turns(dialogue)[-1] == ("assistant", "One, two, —")
    assert dialogue.rest_of_cut_answer == "three."


def user(content: object) -> LlmMessage:
    return {"role": "user", "content": content}


def assistant(content: object) -> LlmMessage:
    return {"role": "assistant", "content": content}


SYSTEM = {"role": "system", "content": "Be kind."}
ITALY = "What is the capital of Italy?"


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("fault", FAULTS)
def test_the_model_does_not_read_what_was_said_in_its_place(fault: str, language: str) -> None:
    said = said_in(language, fault)
    asked = [SYSTEM, user(ITALY), assistant(f"\n{said}\n"), user("Try again.")]
    joined = [SYSTEM, user(f"{ITALY} Try again.")]
    assert without_faults(asked, FAULTS, language) == joined
    cut = [SYSTEM, user(ITALY), assistant(f"{said[:8]}{CUT}"), user("Try again.")]
    assert without_faults(cut, FAULTS, language) == joined


def test_the_begin_of_an_answer_before_a_fault_stays() -> None:
    for end in (CUT_OFF, CUT_OFF.partition(". ")[0]):
        asked = [user("Tell me a story."), assistant(f"Once upon a time,\n{end}"), user("Go on.")]
        kept = [asked[0], assistant("Once upon a time,"), asked[2]]
        assert without_faults(asked, FAULTS, "en") == kept


def test_several_questions_without_an_answer() -> None:
    asked = [user("One?"), assistant(UNREACHABLE), user("Two?"), assistant(NO_ANSWER)]
    assert without_faults([*asked, user("Three?")], FAULTS, "en") == [user("One? Two? Three?")]
    picture = {"type": "image_url", "image_url": {"url": "data:"}}
    (joined,) = without_faults([*asked[:2], user([picture])], FAULTS, "en")
    assert joined == user([{"type": "text", "text": "One?"}, picture])


def test_other_messages_stay_as_they_are() -> None:
    call = {**assistant(""), "tool_calls": [{"id": "one"}]}
    asked = [
        SYSTEM, user(ITALY), user("Please."), call, {"role": "tool", "content": "Rome"},
        assistant("I"), user("And?"), assistant(""), user("So?"), assistant(UNREACHABLE),
    ]  # fmt: skip
    assert without_faults(asked, FAULTS, "en") == asked
