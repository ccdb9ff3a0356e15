"""The rules in Chinese, and the settings of the language."""

from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from pydantic import ValidationError

from antiphon.broker.settings import InvalidSettings
from antiphon.inference_worker.engines.factory import build_processor, examine_engine
from antiphon.inference_worker.engines.local.options import CHINESE_NEEDS, LocalOptions
from antiphon.inference_worker.engines.local.rules import chinese
from antiphon.inference_worker.engines.local.rules.manner import USUAL
from antiphon.inference_worker.engines.local.rules.situation import Situation
from antiphon.inference_worker.engines.local.self_knowledge import SelfKnowledge
from antiphon.inference_worker.engines.types import EngineLoadError
from antiphon.inference_worker.settings import WorkerSettings

NOW = datetime(2026, 11, 28, 15, 5, tzinfo=ZoneInfo("Asia/Shanghai"))
HERE = Situation(NOW, "1.2", previous="罗马。")
SERVER = {"llm_url": "http://127.0.0.1:9/v1", "llm_model": "m"}


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("现在几点了？", "现在是下午3点零5分。"),
        ("請問現在幾點？", "现在是下午3点零5分。"),
        ("你能告诉我现在的时间吗", None),
        ("请问几点了", "现在是下午3点零5分。"),
        ("今天几号？", "今天是2026年11月28日，星期六。"),
        ("今天是几月几号？", "今天是2026年11月28日，星期六。"),
        ("明天星期几？", "明天是星期日。"),
        ("后天周几", "后天是星期一。"),
        ("今年是哪一年？", "今年是2026年。"),
        ("你叫什么名字？", "我叫Antiphon，是一个语音助手。"),
        ("你好，请问你是谁？", "我叫Antiphon，是一个语音助手。"),
        ("你是真人吗？", "我是一个程序，不是人。"),
        ("北京明天的天气怎么样？", "我不能上网，所以不知道天气。"),
        ("谢谢你！", "不客气。"),
        ("好的，再见。", chinese.FAREWELL),
        ("拜拜", chinese.FAREWELL),
        ("请再说一遍。", "罗马。"),
        ("说慢一点。", "好的，我说慢一点。"),
        ("大声一点", "好的，我大声一点。"),
        ("声音太大了", "好的，我小声一点。"),
        ("意大利的首都是哪里？", None),
        ("再见到你很高兴", None),
        ("什么是时间", None),
        ("时间是什么做的", None),
        ("", None),
        ("什" * 300, None),
    ],
)
def test_a_question_is_answered_by_rule(asked: str, answer: str | None) -> None:
    assert chinese.answer(asked, HERE) == answer


def test_a_client_with_its_own_persona_has_its_own_name() -> None:
    knowledge = SelfKnowledge(LocalOptions(language="zh", **SERVER), "你叫小雪。")
    asked = [{"role": "user", "content": "你叫什么名字？"}]
    assert knowledge.answer(asked) is None
    assert "Antiphon" not in knowledge.prompt("你叫小雪。")
    assert knowledge.prompt("你叫小雪。").endswith("你叫小雪。")
    unnamed = SelfKnowledge(LocalOptions(language="zh", **SERVER), "你是一个有用的助手。")
    assert "我叫Antiphon" in str(unnamed.answer(asked))
    assert unnamed.is_farewell(chinese.FAREWELL)


def test_improbable_words_get_a_chinese_sentence() -> None:
    knowledge = SelfKnowledge(LocalOptions(language="zh", **SERVER))
    said = knowledge.answer([{"role": "user", "content": "他都是什么"}], doubtful=True)
    assert said == "我只听得懂中文，刚才那句我没有听懂。"


def test_the_manner_follows_what_was_asked() -> None:
    slower = chinese.manner_of(["你好", "请说慢一点"])
    assert slower.speed < USUAL.speed
    assert chinese.manner_of(["声音大一点"]).gain > USUAL.gain
    assert chinese.manner_of(["太快了", "说快一点"]) == USUAL


def test_the_bundled_model_is_refused_with_what_is_needed() -> None:
    with pytest.raises(InvalidSettings, match="antiphon models get"):
        WorkerSettings(language="zh")
    assert (
        WorkerSettings(language="zh", llm_url="http://h/v1").all_engine_options["language"] == "zh"
    )
    with pytest.raises(EngineLoadError) as refused:
        build_processor("local", options={"language": "zh"})
    assert str(refused.value) == CHINESE_NEEDS
    with pytest.raises(EngineLoadError, match="knows Chinese"):
        build_processor("local", model_path=Path("smollm2-135m"), options={"language": "zh"})
    findings = examine_engine("local", 1, None, {"language": "zh"})
    assert CHINESE_NEEDS in {finding.remedy for finding in findings}


def test_a_voice_must_speak_the_language() -> None:
    assert LocalOptions(language="zh", **SERVER).voice == "xiaoxiao"
    assert LocalOptions(language="zh", voice="yunxi", **SERVER).spoken_language == "zh"
    assert LocalOptions(language="zh", voice="espeak", **SERVER).spoken_language == "zh"
    with pytest.raises(ValidationError, match=r"must be one of xiaoxiao, .* with the language zh"):
        LocalOptions(language="zh", voice="heart", **SERVER)
    with pytest.raises(ValidationError, match=r"must be one of heart, .* with the language en"):
        LocalOptions(voice="xiaoxiao")
