"""Chinese answers, which have no spaces: words, clauses, the guard, and what joins texts."""

import pytest

from antiphon.inference_worker.engines.local.chat import NO_SYSTEM, NO_WORDS
from antiphon.inference_worker.engines.local.chinese.script import joined, said_in
from antiphon.inference_worker.engines.local.clauses import ClauseSplitter, words_of
from antiphon.inference_worker.engines.local.conversation import STILL_THERE
from antiphon.inference_worker.engines.local.dialogue import STYLE_HINT, Dialogue
from antiphon.inference_worker.engines.local.duplex import memo_of_unfinished, unfinished_reply
from antiphon.inference_worker.engines.local.guard.answer_guard import (
    CLOSING,
    NO_CONTENT,
    AnswerGuard,
)
from antiphon.inference_worker.engines.local.hearing import whisper
from antiphon.inference_worker.engines.local.hearing.completeness import LATEST, SOON, patience
from antiphon.inference_worker.engines.local.hearing.speech_input import UnitTranscription
from antiphon.inference_worker.engines.local.hearing.transcript import Transcript
from antiphon.inference_worker.engines.local.language_model import word_pieces
from antiphon.inference_worker.engines.local.remote.faults import CUT_OFF, NO_ANSWER, UNREACHABLE
from antiphon.inference_worker.engines.local.reply import UnfinishedReply
from antiphon.inference_worker.engines.local.rules.answer import ENGLISH_ONLY
from antiphon.inference_worker.engines.local.speech import SpeechQueue, SpokenClause
from antiphon.inference_worker.engines.types import PastUnit
from antiphon.shared_schemas.audio import SILENCE

ANSWER = "我叫小明，今年 18 岁。我在北京大学学习 Python，已经3年了！“真的吗？”他问。好……"


def clauses_of(text: str) -> list[str]:
    splitter = ClauseSplitter("zh")
    found = [clause for character in text for clause in splitter.feed(character)]
    return [clause.text for clause in [*found, *splitter.flush()]]


def guarded(text: str) -> str:
    guard = AnswerGuard(filter_obscene=True, language="zh")
    return "".join(guard.feed(character) for character in text) + guard.flush()


def test_the_clauses_have_the_whole_text_with_its_own_spaces() -> None:
    clauses = clauses_of(ANSWER)
    assert "".join(clauses) == ANSWER
    assert clauses[:2] == ["我叫小明，", "今年 18 岁。"]
    assert "“真的吗？”" in clauses


def test_a_clause_is_complete_before_the_answer_is() -> None:
    splitter = ClauseSplitter("zh")
    assert not splitter.feed("意大利的首都是罗马。")
    assert [clause.text for clause in splitter.feed("罗")] == ["意大利的首都是罗马。"]


def test_words_are_shown_without_spaces_between_them() -> None:
    queue = SpeechQueue(continues=True)
    words = words_of("你好 world，再见。", "zh")
    queue.push(SpokenClause(words, SILENCE, (0,) * len(words), ()))
    assert queue.take(1, 100).text == " 你好 world，再见。"


def test_another_worker_continues_without_spaces() -> None:
    words = words_of("好的，再见。", "zh")[1:]
    memo = memo_of_unfinished(UnfinishedReply(words))
    unit = PastUnit(audio=None, is_listen=False, text="好", end_of_turn=False, memo=memo)
    rest = unfinished_reply([unit])
    assert rest is not None
    assert "".join(word.continuing for word in rest.words) == "的，再见。"


def test_a_good_answer_passes_phrase_by_phrase() -> None:
    guard = AnswerGuard(filter_obscene=True, language="zh")
    pieces = [said for character in ANSWER if (said := guard.feed(character))]
    assert pieces[0] == "我叫小明，"
    assert "".join(pieces) + guard.flush() == ANSWER


def test_a_chinese_loop_ends() -> None:
    loop = "我很喜欢和你一起聊天，"
    assert guarded(loop * 20).count(loop) == 2
    assert guarded("我在这里。" * 20) == "我在这里。" * 2


@pytest.mark.parametrize(
    "obscene", ["你是傻逼", "去操你妈的", "看色情片", "他们做爱", "干你妈", "看黄片"]
)
def test_an_obscene_answer_ends_in_chinese(obscene: str) -> None:
    assert guarded(f"你好，{obscene}，好吗？") == f"你好，{said_in('zh', CLOSING)}"


@pytest.mark.parametrize(
    "sentence",
    [
        "操场上有很多人。",
        "他处女座，很认真。",
        "小鸡很可爱。",
        "我们一起做爱心卡片。",
        "妈妈给我做爱吃的菜。",
        "今日你妈妈会做蛋糕。",
        "生日你妈妈会来。",
        "饼干你妈妈会做。",
        "体操你也可以试试。",
        "蛋黄片很好吃。",
        "路口交通很拥挤，出口交警在。",
        "独自慰问了老人。",
        "角色情感很丰富。",
    ],
)
def test_an_innocent_answer_is_not_cut(sentence: str) -> None:
    assert guarded(sentence) == sentence


def test_fixed_texts_come_in_phrases() -> None:
    assert word_pieces("你好，我是助手。再见") == ["你好，", "我是助手。", "再见"]
    assert word_pieces(" Hello there. ") == [" Hello", " there. "]


def test_texts_join_without_a_space_between_chinese() -> None:
    assert joined(["你好，", "", "世界"]) == "你好，世界"
    assert joined(["用", "Python", "写"]) == "用 Python 写"
    assert joined([]) == ""
    assert Transcript("罗马", -1, 2).after([Transcript("首都是", -1, 3)]).text == "首都是罗马"


def test_a_turn_of_the_user_continues_without_a_space() -> None:
    dialogue = Dialogue("", "zh")
    dialogue.add_user_text("今天是")
    dialogue.add_user_text("星期几？")
    assert dialogue.messages()[-1]["content"] == "今天是星期几？"
    assert dialogue.messages()[0]["content"] == said_in("zh", STYLE_HINT)


@pytest.mark.parametrize(
    "sentence",
    [
        STYLE_HINT,
        NO_SYSTEM,
        ENGLISH_ONLY,
        NO_WORDS,
        CLOSING,
        NO_CONTENT,
        UNREACHABLE,
        CUT_OFF,
        NO_ANSWER,
        *STILL_THERE,
    ],
)
def test_each_sentence_of_the_engine_exists_in_chinese(sentence: str) -> None:
    assert said_in("en", sentence) == sentence
    assert said_in("zh", sentence) != sentence


@pytest.mark.parametrize(
    ("text", "factor"),
    [("今天天气不错，但是", LATEST), ("我想", LATEST), ("因为", LATEST), ("现在几点了？", SOON)],
)
def test_an_unfinished_turn_is_waited_for(text: str, factor: float) -> None:
    assert patience(text, lambda _: 0.5, answered=False) == factor


@pytest.mark.parametrize(("text", "noise"), [("嗯。", True), ("咳咳", True), ("好的。", False)])
def test_fillers_are_noise(text: str, noise: bool) -> None:
    assert UnitTranscription(text, 0, 100.0, 0.0, 0.0).is_noise is noise


@pytest.mark.parametrize(
    ("written", "corrected"),
    [
        ("从前有一只小狗。从前有一只小狗。", "从前有一只小狗。"),
        ("现在是下午3.25分。", "现在是下午3点25分。"),
        ("谢谢谢谢", "谢谢谢谢"),
        ("圆周率是3.14。", "圆周率是3.14。"),
    ],
)
def test_what_the_recogniser_writes_is_corrected(written: str, corrected: str) -> None:
    assert whisper._corrected(written) == corrected
