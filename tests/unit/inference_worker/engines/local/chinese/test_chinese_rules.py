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
        ("你能告诉我现在的时间吗", "现在是下午3点零5分。"),
        ("请问几点了", "现在是下午3点零5分。"),
        ("你知道现在几点吗", "现在是下午3点零5分。"),
        ("幾點啦", "现在是下午3点零5分。"),
        ("帮我看一下现在几点了", "现在是下午3点零5分。"),
        ("什么时候", None),
        ("现在纽约几点", "纽约现在是凌晨2点零5分。"),
        ("洛杉矶现在几点了", "洛杉矶现在是昨天晚上11点零5分。"),
        ("现在是北京时间几点", "北京现在是下午3点零5分。"),
        ("今天几号？", "今天是2026年11月28日，星期六。"),
        ("今天是几月几号？", "今天是2026年11月28日，星期六。"),
        ("明天星期几？", "明天是星期日。"),
        ("后天周几", "后天是星期一。"),
        ("今年是哪一年？", "今年是2026年。"),
        ("你叫什么名字？", "我叫Antiphon，是一个语音助手。"),
        ("你好，请问你是谁？", "我叫Antiphon，是一个语音助手。"),
        ("你叫啥名字呀", "我叫Antiphon，是一个语音助手。"),
        ("您贵姓", "我叫Antiphon，是一个语音助手。"),
        ("你是真人吗？", "我是一个程序，不是人。"),
        ("你是真人嘛", "我是一个程序，不是人。"),
        ("你是人还是机器", "我是一个程序，不是人。"),
        ("你会干嘛", chinese.ABILITIES),
        ("北京明天的天气怎么样？", "我不能上网，所以不知道天气。"),
        ("今天会不会下雨", "我不能上网，所以不知道天气。"),
        ("今天多少度", "我不能上网，所以不知道天气。"),
        ("我喜欢下雨的天气", None),
        ("谢谢你！", "不客气。"),
        ("谢谢啊", "不客气。"),
        ("好的谢谢你", "不客气。"),
        ("喂你好", "你好！有什么可以帮你的吗？"),
        ("中午好", "你好！有什么可以帮你的吗？"),
        ("好的，再见。", chinese.FAREWELL),
        ("拜拜", chinese.FAREWELL),
        ("那就这样吧再见", chinese.FAREWELL),
        ("我先挂了", chinese.FAREWELL),
        ("下次再聊", chinese.FAREWELL),
        ("请再说一遍。", "罗马。"),
        ("能再说一遍吗", "罗马。"),
        ("不好意思没听清", "罗马。"),
        ("你刚刚说什么", "罗马。"),
        ("什么", "罗马。"),
        ("说慢一点。", "好的，我说慢一点。"),
        ("你能不能说慢点", "好的，我说慢一点。"),
        ("別說那麼快", "好的，我说慢一点。"),
        ("语速太慢了", "好的，我说快一点。"),
        ("大声一点", "好的，我大声一点。"),
        ("可以大声点吗", "好的，我大声一点。"),
        ("把音量调大", "好的，我大声一点。"),
        ("我听不见", "好的，我大声一点。"),
        ("声音太大了", "好的，我小声一点。"),
        ("救命啊", chinese.EMERGENCY),
        ("帮我叫救护车", chinese.EMERGENCY),
        ("我真的不想活了", chinese.CRISIS),
        ("我不想死", None),
        ("想死你了", None),
        ("帮我定个明天早上七点的闹钟", "我不能设闹钟，也不能提醒你。"),
        ("提醒我明天开会", "我不能设闹钟，也不能提醒你。"),
        ("给妈妈打个电话", "我不能打电话。"),
        ("放一首周杰伦的歌", "我不能放音乐，也不会唱歌。"),
        ("播放音乐", "我不能放音乐，也不会唱歌。"),
        ("把客厅的灯打开", "这个我做不了，我只能和你说话。"),
        ("帮我发条短信", "这个我做不了，我只能和你说话。"),
        ("关灯", "这个我做不了，我只能和你说话。"),
        ("你能上网吗", "我不能上网。"),
        ("比特币现在多少钱", "我不能上网，所以不知道最新的消息和价格。"),
        ("我喜欢唱歌", None),
        ("怎么打电话给客服", None),
        ("我不想活动", None),
        ("今天天气真好", None),
        ("大", None),
        ("昨天给妈妈打电话了", None),
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


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("三加五等于多少", "3加5等于8。"),
        ("3+5=?", "3加5等于8。"),
        ("-3-10/2", "负3减10除以2等于-8。"),
        ("请问一百二十三乘以四十五是多少？", "123乘以45等于5535。"),
        ("幫我算一下一萬加兩千等於幾", "10000加2000等于12000。"),
        ("两百五减三十", "250减30等于220。"),
        ("三点一四乘以二等于几啊", "3.14乘以2等于6.28。"),
        ("100除以3等于多少", "100除以3约等于33.3333。"),
        ("五除以零", "零不能作除数。"),
        ("负三加五", "负3加5等于2。"),
        ("三减五等于几", "3减5等于-2。"),
        ("十二的平方是多少", "12的平方等于144。"),
        ("二的十次方", "2的10次方等于1024。"),
        ("十六的平方根是多少", "16的平方根等于4。"),
        ("根号二等于多少", "根号2约等于1.4142。"),
        ("200的百分之15是多少", "200的百分之15等于30。"),
        ("四分之一加二分之一", "4分之1加2分之1等于0.75。"),
        ("1.5万加两万是多少", "15000加20000等于35000。"),
        ("负二的平方是多少", "负2的平方等于4。"),
        ("负二的一百零一次方", "负2的101次方约等于-2.54乘以10的30次方。"),
        ("一亿两千万加五", "120000000加5等于120000005。"),
        ("2的100次方等于多少", "2的100次方约等于1.27乘以10的30次方。"),
        ("三加五等于八吗", None),
        ("八除二等于多少", None),
        ("三心二意", None),
        ("一加手机多少钱", None),
        ("2026-11-28", None),
        ("138-1234-5678", None),
        ("010-12345678", None),
        ("一百二十", None),
    ],
)
def test_a_sum_is_calculated(asked: str, answer: str | None) -> None:
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
    assert chinese.manner_of(["能不能说慢一点吗", "不要说这么慢"]) == USUAL
    assert chinese.manner_of(["音量小一点"]).gain < USUAL.gain


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
