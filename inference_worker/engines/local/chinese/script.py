"""Chinese script: which characters need no space between them; and the engine's own sentences in it."""

import re
from collections.abc import Iterable

HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff々〇"
"""For a class of characters in a pattern."""

STOPS = "。！？"
PAUSES = "，、；："
CLOSING = "”’」』）】》〉"
MARKS = f"{STOPS}{PAUSES}{CLOSING}…—～·"
"""They follow a character without a space, and end no clause alone."""

OPENING = "“‘「『（【《〈"

_SHARED = "“”‘’…—·"
"""Marks of other scripts too."""
_UNSPACED = re.compile(f"[{HAN}{re.escape(MARKS + OPENING)}](?<![{_SHARED}])")
_HAN = re.compile(f"[{HAN}]")


def is_unspaced(character: str) -> bool:
    """Whether no space belongs before or after `character`."""
    return bool(_UNSPACED.match(character))


def has_han(text: str) -> bool:
    return bool(_HAN.search(text))


def continuation(before: str, text: str) -> str:
    """`text` after `before`, with a space between them unless both sides are Chinese."""
    ends_chinese = before and (is_unspaced(before[-1]) or before[-1] in MARKS)
    glued = ends_chinese and text and is_unspaced(text[0])
    return text if glued else f" {text}"


def joined(texts: Iterable[str]) -> str:
    """The texts that are not empty, with a space between two as in `continuation`."""
    first, *others = [text for text in texts if text] or [""]
    for text in others:
        first += continuation(first, text)
    return first


_CHINESE = {
    "Give short, correct answers in plain words.":
        "请用简短、准确的普通话口语回答，不要用列表。",
    "You are a helpful assistant. Give short, correct answers in plain words.":
        "你是一个乐于助人的助手。请用简短、准确的中文回答。",
    "I understand English only, and I did not understand that.":
        "我只听得懂中文，刚才那句我没有听懂。",
    "I did not understand any words. Please say it again, or write it.":
        "我没听清你说的话。请再说一遍，或者打字告诉我。",
    "I would rather not say that.":
        "这个我还是不说了。",
    "Sorry, I have no good answer to that.": "抱歉，这个问题我答不好。",
    "I cannot reach my language model right now. Please try again.":
        "我现在连不上语言模型，请再试一次。",
    "I lost the connection to my language model. Please ask again.":
        "我和语言模型的连接断了，请再问一次。",
    "My language model gave no answer. Please try again.":
        "语言模型没有回答，请再试一次。",
    "(The user says nothing. Follow your instructions.)": "（用户没有说话。请按照你的指示回答。）",
    "Are you still there?": "你还在吗？",
    "I am still here, if you need anything.": "我还在，有需要就跟我说。",
}  # fmt: skip


def said_in(language: str, sentence: str) -> str:
    """`sentence`, which is English, in the language of a session."""
    return _CHINESE.get(sentence, sentence) if language == "zh" else sentence
