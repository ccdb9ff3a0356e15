"""The rules in Chinese: the clock, the calendar, sums, the assistant itself, and the conversation."""

import re
import zoneinfo
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from antiphon.inference_worker.engines.local.chinese.sums import answer_sum_in_chinese
from antiphon.inference_worker.engines.local.rules.manner import (
    USUAL,
    Manner,
    other_gain,
    other_pace,
)
from antiphon.inference_worker.engines.local.rules.situation import NAME, Situation
from antiphon.inference_worker.engines.local.rules.text import LONGEST_CHARS

FAREWELL = "再见，很高兴和你聊天！"
ABILITIES = "我可以和你聊天、回答问题、算数、报时间和日期。我会出错，重要的事请再核实一下。"
CRISIS = (
    "听你这么说，我很难过。请马上告诉身边的人，或者拨打急救电话、心理援助热线。我只是一个程序。"
)
EMERGENCY = "请马上拨打急救或报警电话。我不能打电话。"

_DAYS = ("星期一", "星期二", "星期三", "星期四", "星期五", "星期六", "星期日")
_NAMED_DAYS = {"大前天": -3, "前天": -2, "昨天": -1, "今天": 0, "明天": 1, "后天": 2, "大后天": 3}

_SIMPLIFIED = str.maketrans(
    "幾點現嗎間號見誰麼會說謝對聽時這樣誰隻還個們麵請問歡訴氣聞價錢較聲慢聰頭裡裏後開來為從過話語誕節歲剛"
    "讓馬給鐘別兒減萬億兩於負幫電鬧燈樂紐約倫東國韓",
    "几点现吗间号见谁么会说谢对听时这样谁只还个们面请问欢诉气闻价钱较声慢聪头里里后开来为从过话语诞节岁刚"
    "让马给钟别儿减万亿两于负帮电闹灯乐纽约伦东国韩",
)
"""The recogniser sometimes writes traditional characters."""

_LEAD = re.compile(
    r"^(?:请问(?:一下)?|你好|喂|嗯|那么?|好的?|谢谢|不好意思|麻烦你?|请|(?:你?(?:能不能|可以|能))?(?:帮我|告诉我)(?:[看查]?一下)?"
    r"|我想(?:知道|问)(?:一下)?|你?知道)+"
)
_TAIL = re.compile(r"(?<!^)(?:啊|呀|呢|吧|哦|喔|啦|谢谢你?|好吗|可以吗)+$")
_ASKS = re.compile(r"(?:(?<!干)嘛|(?<![什怎那这多])么)$")
"""Other ways to write 吗."""


def prompt(system_prompt: str, now: datetime, *, persona: bool) -> str:
    """`system_prompt` after one sentence each of name, date and limits."""
    name = "" if persona else f"你是{NAME}，一个语音助手。"
    return f"{name}今天是{_date(now)}。你不知道天气、新闻和价格。{system_prompt}"


def answer(question: str, situation: Situation) -> str | None:
    """The answer by rule to what the user said or wrote; None if the language model answers it."""
    if len(question) > LONGEST_CHARS:
        return None
    for text in _forms(question):
        for pattern, function in _RULES:
            if (found := pattern.fullmatch(text)) and (sentence := function(found, situation)):
                return sentence
    return answer_sum_in_chinese(question.translate(_SIMPLIFIED))


def manner_of(said: Sequence[str]) -> Manner:
    """What the user's turns `said` ask for, together."""
    manner = USUAL
    for turn in said:
        for text in _forms(turn) if len(turn) <= LONGEST_CHARS else ():
            if _PACE.fullmatch(text):
                manner = Manner(other_pace(manner.speed, slower=_is_slower(text)), manner.gain)
                break
            if _LOUDNESS.fullmatch(text):
                manner = Manner(manner.speed, other_gain(manner.gain, quieter=_is_quieter(text)))
                break
    return manner


def asks_for_time(text: str) -> bool:
    """Whether the user asks the assistant to wait."""
    return bool(_HOLD_ON.search(text.translate(_SIMPLIFIED)))


def _forms(question: str) -> tuple[str, ...]:
    """The question without marks and spaces, and without polite words."""
    text = re.sub(r"[\W_]", "", question.translate(_SIMPLIFIED)).lower().replace("您", "你")
    text = _ASKS.sub("吗", text)
    return tuple(dict.fromkeys((text, _TAIL.sub("", text), _TAIL.sub("", _LEAD.sub("", text)))))


def _date(day: datetime) -> str:
    return f"{day.year}年{day.month}月{day.day}日，{_DAYS[day.weekday()]}"


def _time(found: re.Match[str], situation: Situation) -> str:
    if not (city := found["city"]):
        return f"现在是{_clock(situation.now)}。"
    zone = next(zone for names, zone in _ZONES.items() if city in names.split("|"))
    there = situation.now.astimezone(zoneinfo.ZoneInfo(zone))
    day = {-1: "昨天", 1: "明天"}.get((there.date() - situation.now.date()).days, "")
    return f"{city}现在是{day}{_clock(there)}。"


def _clock(now: datetime) -> str:
    parts = ((5, "凌晨"), (8, "早上"), (12, "上午"), (13, "中午"), (18, "下午"), (24, "晚上"))
    part = next(name for until, name in parts if now.hour < until)
    hour = now.hour - 12 * (now.hour > 12)
    minute = f"{now.minute}分" if now.minute >= 10 else f"零{now.minute}分" if now.minute else "整"
    return f"{part}{hour}点{minute}"


def _day_of(found: re.Match[str], situation: Situation) -> tuple[str, datetime]:
    name = found["day"] or "今天"
    return name, situation.now + timedelta(days=_NAMED_DAYS[name])


def _calendar_day(found: re.Match[str], situation: Situation) -> str:
    name, day = _day_of(found, situation)
    return f"{name}是{_date(day)}。"


def _weekday(found: re.Match[str], situation: Situation) -> str:
    name, day = _day_of(found, situation)
    return f"{name}是{_DAYS[day.weekday()]}。"


def _year(_: re.Match[str], situation: Situation) -> str:
    return f"今年是{situation.now.year}年。"


def _fixed(sentence: str) -> Callable[[re.Match[str], Situation], str | None]:
    return lambda _found, _situation: sentence


def _of_itself(sentence: str) -> Callable[[re.Match[str], Situation], str | None]:
    """Not for an assistant that the client's prompt has given another name."""
    return lambda _, situation: None if situation.persona else sentence


def _version(_: re.Match[str], situation: Situation) -> str | None:
    return None if situation.persona else f"我是{NAME}，版本{situation.version}。"


def _repeat(_: re.Match[str], situation: Situation) -> str:
    return situation.previous or "我还没有说过话。"


def _change_pace(found: re.Match[str], _: Situation) -> str:
    return "好的，我说慢一点。" if _is_slower(found[0]) else "好的，我说快一点。"


def _change_loudness(found: re.Match[str], _: Situation) -> str:
    return "好的，我小声一点。" if _is_quieter(found[0]) else "好的，我大声一点。"


def _is_slower(text: str) -> bool:
    return "快" in text if re.search("太|[这那]么", text) else "慢" in text


def _is_quieter(text: str) -> bool:
    return "小" in text if "太" not in text else "大" in text


_HOLD_ON = re.compile(
    r"等(?:一[下等会]|[等我会下])|稍[等候]|别急|[让容]我(?:先|再)?[想看查]|我(?:先|再)?(?:想想|想一[下想]|查一?下)"
    r"|(?:马上|很快|一会儿?)就?回来|给我(?:一?点|一|几)?(?:时间|分钟|秒)"
)
_BIT = r"(?:一?点儿?|一些)?"
_CAN = "(?:[请你再]|能不能|可不可以|可以|能)*"
_PACE = re.compile(
    rf"(?=\w\w){_CAN}(?:语速)?[说讲]?[话得]?[慢快]{_BIT}[说讲]?{_BIT}吗?|你?(?:语速|[说讲][话得的]*)?太[快慢]了?"
    r"|(?:请|你)?(?:别|不要)[说讲]?[话得的]*[这那]么[快慢]"
)
_LOUDNESS = re.compile(
    rf"(?=\w\w){_CAN}[说讲]?话?(?:声音|音量)?再?[大小]声?{_BIT}声?[说讲]?吗?|(?:你的?)?(?:声音|音量)太[大小]了?"
    rf"|{_CAN}(?:把?(?:声音|音量)[调放]|调)[大小]{_BIT}(?:声音|音量)?吗?|我?听不(?:太)?[清见到]楚?"
)
_ZONES = {
    "北京|上海|深圳|中国": "Asia/Shanghai", "香港": "Asia/Hong_Kong", "台北|台湾": "Asia/Taipei",
    "东京|日本": "Asia/Tokyo", "首尔|韩国": "Asia/Seoul", "新加坡": "Asia/Singapore", "迪拜": "Asia/Dubai",
    "悉尼": "Australia/Sydney", "莫斯科": "Europe/Moscow", "巴黎|法国": "Europe/Paris",
    "柏林|德国": "Europe/Berlin", "伦敦|英国": "Europe/London", "纽约": "America/New_York",
    "洛杉矶|旧金山": "America/Los_Angeles",
}  # fmt: skip
_NOW = "(?:现在|目前|这会儿|此刻)?"
_DAY = rf"(?P<day>{'|'.join(sorted(_NAMED_DAYS, key=len, reverse=True))})?"

_Function = Callable[[re.Match[str], Situation], str | None]
_ROWS: tuple[tuple[str, _Function], ...] = (
    # What must not wait
    (r"(?:我|真的?|好|很|都|就|也|现在|有点|只|觉得)*(?:想要?(?:自杀|轻生|跳楼|割腕|死(?![你我他她]))"
     r"|不想活(?!动)|活不下去|活着没意思)\w{0,6}",
     _fixed(CRISIS)),
    (r"(?:快来人|救命|救救我|着火了?|失火了)+(?:啊|呀)?|(?:快|请)*(?:打|拨打?|叫)(?:120|119|110|一二零|幺二零|急救电话|救护车)"
     r"|我(?:喘不过气|不能呼吸|胸口很?疼)(?:了|来)*", _fixed(EMERGENCY)),
    # Courtesy
    (r"你们好|大家好|(?:喂|你好|嗨|嘿|哈[喽罗]|hello|hi|早上好|上午好|中午好|下午好|晚上好|早安|早)+",
     _fixed("你好！有什么可以帮你的吗？")),
    (r"你(?:今天)?(?:好吗|怎么样|还好吗)|最近(?:怎么样|好吗)",
     _fixed("我很好，谢谢。有什么可以帮你的吗？")),
    (r"(?:好的?|嗯|那|非常|太|多)*(?:谢谢|感谢|多谢|谢|辛苦)(?:你们?|了|啦|的帮助)*", _fixed("不客气。")),
    (r"(?:好的?|好了|那|没事了?|谢谢你?|我?先?要?[走挂]了|先这样|就这样|吧)*"
     r"(?:再见|拜拜|拜|掰掰|下次见|下次再见|明天见|回头见|回见|晚安|(?:下次|改天|回头)再?聊|我[先要]?[走挂]了|先挂了|不聊了)"
     r"(?:了|吧|再见|拜拜)*",
     _fixed(FAREWELL)),
    (r"对不起|不好意思|抱歉", _fixed("没关系。")),
    (r"你?(?:在吗|能?听得?[到见]我?(?:说话)?吗)", _fixed("在，我听得到。")),
    (r"(?:停|停下|停止|别[说讲]了|不要说了|安静|闭嘴|算了|等一下|等等|等会儿?|稍等)(?:吧|一下)*",
     _fixed("好的。")),
    # The conversation itself
    (rf"{_CAN}(?:重新|重复)?再?(?:说|讲|重复)(?:一?遍|一?次|一下)吗?|再来一?[遍次]"
     r"|你?(?:刚[才刚])?说了?(?:什么|啥)|什么|啥"
     r"|我?(?:刚[才刚])?没有?听(?:清楚?|到|见|懂)", _repeat),
    (_PACE.pattern, _change_pace),
    (_LOUDNESS.pattern, _change_loudness),
    # Itself
    (r"你(?:叫|的名字[叫是])(?:什么|啥)(?:名字)?|你(?:的名字)?是?谁|(?:我该)?你?怎么称呼你?|你贵姓|你有名字吗"
     r"|介绍一下你?自己|(?:做个|做一下|请)*自我介绍(?:一下)?",
     _of_itself(f"我叫{NAME}，是一个语音助手。")),
    (r"你?的?是?(?:什么|哪个|几)?版本号?是?(?:什么|多少)?", _version),
    (r"你?(?:会|能|可以)(?:帮我)?(?:(?:做|干)?(?:什么|啥|些什么|哪些事)|干嘛)|你有什么(?:功能|用)",
     _of_itself(ABILITIES)),
    (r"(?:你是(?:不是)?(?:真人|人|人类|机器人|ai|人工智能|程序|机器)(?:还是)?)+(?:真人|人|人类|机器人?|ai|程序)?吗?",
     _of_itself("我是一个程序，不是人。")),
    (r"你会说(?:什么|哪些|几种)语言|你[会能](?:说|讲|听懂?)?(?:英语|英文|日语|法语|外语)吗?",
     _fixed("现在我只会说中文。")),
    # What it cannot know
    (r"(?!\w*[我喜讨真])\w{0,10}天气(?:怎么?样|如何|好吗|好不好|预报)?|(?:今天|明天|现在|外面)*(?:会不?会?)?下[雨雪]吗?"
     r"|(?:今天|明天|外面)[冷热](?:吗|不[冷热])?|(?:今天|明天|现在|外面)+的?(?:气温|温度)?是?(?:多少度?|几度)",
     _fixed("我不能上网，所以不知道天气。")),
    (r"(?:今天|最近)?有?(?:什么|啥)?(?:最新的?)?新闻(?:吗|是什么)?"
     r"|\w{0,8}(?:股价|股票|汇率|油价|金价|比特币)现?在?是?(?:多少钱?|怎么样)?",
     _fixed("我不能上网，所以不知道最新的消息和价格。")),
    (r"你[会能]不?能?(?:上网|联网)吗?", _fixed("我不能上网。")),
    (r"我(?:现在)?在哪[里儿]?|我的位置", _fixed("我不知道你在哪里。")),
    # What it cannot do
    (r"(?:请|快)*(?:[给向]\w{1,4})?打一?个?电话(?:给\w{1,4}(?<!了))?", _fixed("我不能打电话。")),
    (r"(?:请|给我)*(?:[设定订上]|设[定置])(?:一?个)?\w{0,10}(?:闹钟|闹铃|提醒|倒计时|计时器?)|(?:记得|到时候)?(?:提醒|叫醒)我\w+",
     _fixed("我不能设闹钟，也不能提醒你。")),
    (r"(?:请|给我)*(?:播放|[放播唱来])(?:一?[首个点段]|一些|一下)?\w{0,8}(?:歌曲?|音乐|曲子)",
     _fixed("我不能放音乐，也不会唱歌。")),
    (r"(?:请|给我)*(?:发一?[条个封]?\w{0,4}(?:短信|微信|邮件|消息)|(?:打?开|关[掉上闭]?)\w{0,4}(?:灯|空调|电视|窗[帘户])"
     r"|把\w{0,4}(?:灯|空调|电视|窗[帘户])(?:打?开|关[掉上闭]?)了?|[订点叫买]一?[个张份]?\w{0,4}(?:外卖|机票|车票|火车票|酒店|出租车|车))",
     _fixed("这个我做不了，我只能和你说话。")),
    # The clock and the calendar
    (rf"(?:看看?)?{_NOW}是?(?P<city>{'|'.join(_ZONES)})?{_NOW}的?"
     r"(?:是?(?:几点|什么时间|时间|什么时候了)|(?<=现在)是?什么时候)(?:几分|几点|了|钟|是多少|是几点)*吗?",
     _time),
    (rf"{_DAY}是?(?:几月)?(?:几[日号]|多少号)了?"
     r"|(?:今天)?是?什么日子|(?:现在|这个月)?是?几月份?|(?:今天)?的?(?:日期是?(?:什么|多少)?)",
     _calendar_day),
    (rf"{_DAY}是?(?:星期|礼拜|周)几了?", _weekday),
    (r"(?:今年|现在)是?(?:哪一?年|几几年|什么年份?)", _year),
)  # fmt: skip
_RULES = tuple((re.compile(pattern), function) for pattern, function in _ROWS)
