"""What a Chinese voice says for numbers, dates, amounts, units and signs."""

import pytest

from antiphon.inference_worker.engines.local.chinese.reader import integer, spoken_words
from antiphon.inference_worker.engines.local.clauses import ClauseSplitter


def said(text: str) -> str:
    """As the splitter cuts it, without the spaces between words of other scripts."""
    splitter = ClauseSplitter("zh")
    clauses = [*splitter.feed(text), *splitter.flush()]
    return " ".join("".join(part for clause in clauses for part in clause.spoken).split())


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0, "零"),
        (2, "二"),
        (10, "十"),
        (12, "十二"),
        (20, "二十"),
        (101, "一百零一"),
        (110, "一百一十"),
        (200, "二百"),
        (1002, "一千零二"),
        (1010, "一千零一十"),
        (2000, "两千"),
        (10_000, "一万"),
        (20_050, "两万零五十"),
        (100_000, "十万"),
        (120_000, "十二万"),
        (1_000_001, "一百万零一"),
        (200_000_000, "两亿"),
        (1_300_050_000, "十三亿零五万"),
    ],
)
def test_whole_numbers(value: int, words: str) -> None:
    assert integer(value) == words


@pytest.mark.parametrize(
    ("shown", "spoken"),
    [
        ("今天是2026年11月28日。", "今天是二零二六年十一月二十八日。"),
        ("2026-11-28", "二零二六年十一月二十八日"),
        ("2026/1/5开会", "二零二六年一月五日开会"),
        ("现在15:05。", "现在十五点零五分。"),
        ("2:30见。", "两点三十分见。"),
        ("08:00开门", "八点开门"),
        ("比分是3:2。", "比分是三比二。"),
        ("涨了5%。", "涨了百分之五。"),
        ("-3.5%", "负百分之三点五"),
        ("价格是$-5。", "价格是负五美元。"),
        ("-$5", "负五美元"),
        ("2^10 = 1024", "二的十次方等于一千零二十四"),
        ("2^(-3)", "二的负三次方"),
        ("10³=1000", "十的三次方等于一千"),
        ("10⁻³", "十的负三次方"),
        ("x²+y² = 1", "x 的平方加 y 的平方等于一"),
        ("2ⁿ", "二的 n 次方"),
        ("E=mc²", "E 等于 mc 的平方"),
        ("5 kg/m³", "五公斤每立方米"),
        ("√16 = 4", "根号十六等于四"),
        ("2×√9", "二乘根号九"),
        ("½杯水", "二分之一杯水"),
        ("3½小时", "三又二分之一小时"),
        ("圆周率π约是3.14", "圆周率派约是三点一四"),
        ("面积是5 m²。", "面积是五平方米。"),
        ("5%-10%", "百分之五到百分之十"),
        ("3‰", "千分之三"),
        ("气温是-5℃。", "气温是零下五摄氏度。"),
        ("25°C", "二十五摄氏度"),
        ("转了90°", "转了九十度"),
        ("价格是¥12.50。", "价格是十二点五元。"),
        ("$3", "三美元"),
        ("€2", "两欧元"),
        ("¥1,250", "一千二百五十元"),
        ("¥3万", "三万元"),
        ("3.14", "三点一四"),
        ("1,234,567人", "一百二十三万四千五百六十七人"),
        ("5km", "五公里"),
        ("120km/h", "一百二十公里每小时"),
        ("2kg", "两公斤"),
        ("10-20cm", "十到二十厘米"),
        ("16GB内存", "十六吉字节内存"),
        ("100m²", "一百平方米"),
        ("2个人", "两个人"),
        ("12个人", "十二个人"),
        ("第2名", "第二名"),
        ("二十2", "二十二"),
        ("3-5天", "三到五天"),
        ("1/2", "二分之一"),
        ("3+5=8", "三加五等于八"),
        ("12×4=48", "十二乘四等于四十八"),
        ("10÷2=5", "十除以二等于五"),
        ("7-3=4", "七减三等于四"),
        ("x>3", "x 大于三"),
        ("打13812345678。", "打幺三八幺二三四五六七八。"),
        ("010-12345678", "零幺零幺二三四五六七八"),
        ("编号007", "编号零零七"),
        ("我用 Python 写代码。", "我用 Python 写代码。"),
        ("写信给 ab@example.com。", "写信给 ab 艾特 example 点 com 。"),
        ("https://example.cn/a", "example 点 cn 斜杠 a"),
        ("猫&狗", "猫和狗"),
        ("５０％", "百分之五十"),
        ("很好😀。", "很好。"),
        ("**重点**是这个。", "重点是这个。"),
        ("看[这里](https://a.cn/x)。", "看这里。"),
        ("《红楼梦》（曹雪芹）", "《红楼梦》（曹雪芹）"),
        ("C++很难。", "C 加加很难。"),
    ],
)
def test_a_text_is_read_as_people_say_it(shown: str, spoken: str) -> None:
    assert said(shown) == spoken


def test_each_shown_word_has_what_is_said_for_it() -> None:
    assert spoken_words(["2026", "年", "11", "月"]) == ["二零二六", "年", "十一", "月"]
    assert spoken_words(["12", ":", "30"])[0] == "十二点三十分"
    assert spoken_words([]) == []
