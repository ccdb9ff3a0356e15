from inference_worker.engines.local.dialogue import STYLE_HINT, Dialogue


def turns(dialogue: Dialogue) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in dialogue.messages()[1:]]


def test_the_system_prompt_is_the_users_own_and_a_hint() -> None:
    (message,) = Dialogue("  You are a pirate. ").messages()
    assert message == {"role": "system", "content": f"You are a pirate. {STYLE_HINT}"}


def test_spoken_pieces_make_one_turn_and_end_turn_closes_it() -> None:
    dialogue = Dialogue("")
    dialogue.hear("Hello")
    assert dialogue.unanswered
    dialogue.say("Hi")
    dialogue.say(" there.")
    dialogue.end_turn()
    assert not dialogue.unanswered
    assert turns(dialogue) == [("user", "Hello"), ("assistant", "Hi there.")]


def test_words_after_unanswered_words_continue_the_turn() -> None:
    dialogue = Dialogue("")
    dialogue.hear("What is")
    dialogue.hear("the capital?")
    assert turns(dialogue) == [("user", "What is the capital?")]


def test_excused_words_want_no_answer_until_more_are_heard() -> None:
    dialogue = Dialogue("")
    dialogue.hear("Mm.")
    dialogue.excuse()
    assert not dialogue.unanswered
    dialogue.hear("Why?")
    assert dialogue.unanswered
    assert turns(dialogue) == [("user", "Mm. Why?")]


def test_a_reply_so_far_extends_only_an_open_turn() -> None:
    dialogue = Dialogue("")
    dialogue.hear("Count.")
    dialogue.say("One,")
    assert dialogue.messages(" two,")[-1]["content"] == "One, two,"
    dialogue.end_turn()
    assert dialogue.messages(" two,")[-1]["content"] == "One,"


def test_trim_forgets_the_oldest_turns_and_begins_with_the_user() -> None:
    dialogue = Dialogue("system")
    for number in range(20):
        dialogue.hear(f"question {number} " + "x" * 60)
        dialogue.say(f"answer {number} " + "y" * 60)
        dialogue.end_turn()
    assert not dialogue.trim(10_000)
    assert dialogue.trim(500)
    kept = turns(dialogue)
    assert kept[0][0] == "user"
    assert kept[-1][1].startswith("answer 19")
    assert 2 <= len(kept) < 20
    assert dialogue.messages()[0]["content"].startswith("system")


def test_trim_keeps_the_last_words_however_long() -> None:
    dialogue = Dialogue("")
    dialogue.hear("x" * 9000)
    dialogue.trim(100)
    assert len(turns(dialogue)) == 1
