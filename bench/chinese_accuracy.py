"""How well the Chinese voices of the local engine are understood by its own recogniser (extra `zh`).

    python bench/chinese_accuracy.py                  # all voices
    python bench/chinese_accuracy.py --voices yunxi

Each voice speaks 20 sentences, clause by clause as in a conversation. Printed are the errors per character,
the errors per syllable without its tone, and the CPU time that the recogniser needs for a sentence.
"""

import argparse
import logging
import re
import time

import structlog

from antiphon.inference_worker.engines.common.costs import StageCosts
from antiphon.inference_worker.engines.local.chinese.reader import spoken_words
from antiphon.inference_worker.engines.local.clauses import ClauseSplitter
from antiphon.inference_worker.engines.local.dependencies import import_library
from antiphon.inference_worker.engines.local.hearing.transcription import Recogniser
from antiphon.inference_worker.engines.local.speech import joined
from antiphon.inference_worker.engines.local.voices.catalogue import CHINESE_VOICES, DEFAULT_VOICES
from antiphon.inference_worker.engines.local.voices.speaker import Voices
from voice_accuracy import distance, hear

SENTENCES = (
    "意大利的首都是罗马。",
    "一个星期有七天，一年有十二个月。",
    "地球上最大的海洋是太平洋。",
    "蜜蜂采集花蜜，然后酿成蜂蜜。",
    "从前，有一只小狗和一只小猫住在海边的小房子里。",
    "我会先去北京，因为那里有故宫和长城。",
    "热的反义词是冷。",
    "水在100℃时沸腾。",
    "我是一个语音助手，可以回答问题，也可以讲故事。",
    "不客气，祝你晚上愉快！",
    "这本小说的作者是鲁迅。",
    "先把鸡蛋放进开水里，然后等7分钟。",
    "天空看起来是蓝色的，因为空气散射蓝光比红光多。",
    "木星是太阳系中最大的行星。",
    "我最喜欢的季节是秋天，因为树叶会变黄。",
    "蜘蛛有八条腿，昆虫只有六条腿。",
    "现在是下午3点25分。",
    "明天是2026年11月29日，星期日。",
    "请你再说一遍，我没有听清楚。",
    "学习一门新的语言需要耐心和练习。",
)


def measure(voices: Voices, recogniser: Recogniser, voice: str) -> str:
    """One row of the table."""
    wrong = wrong_syllables = count = 0
    spent_s = 0.0
    for sentence in SENTENCES:
        splitter, speaker = ClauseSplitter("zh"), voices.speaker(voice)
        clauses = [*splitter.feed(sentence), *splitter.flush()]
        parts = (part for clause in clauses for part in speaker.speak(clause, StageCosts()))
        said = joined(parts)
        begun = time.process_time()
        transcript = hear(recogniser, said.audio)
        spent_s += time.process_time() - begun
        expected, written = characters(sentence), characters(transcript)
        wrong += distance(expected, written)
        wrong_syllables += distance(syllables(expected), syllables(written))
        count += len(expected)
    rate, syllable_rate = 100 * wrong / count, 100 * wrong_syllables / count
    return f"{voice:<10} {rate:8.1f} {syllable_rate:12.1f} {spent_s / len(SENTENCES):14.2f}"


def characters(text: str) -> list[str]:
    """What is said for `text`: 7 and 七 are the same."""
    return list(re.sub(r"[\W_]", "", "".join(spoken_words(list_of_words(text)))))


def list_of_words(text: str) -> list[str]:
    return re.findall(r"[\d.:%-]+|.", text)


def syllables(said: list[str]) -> list[str]:
    return [str(one) for one in import_library("pypinyin").lazy_pinyin("".join(said))]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--voices", nargs="*", help="ids; all by default")
    asked = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    voices, recogniser = Voices.load(DEFAULT_VOICES["zh"], 150, "zh"), Recogniser("zh")
    print(f"{'voice':<10} {'CER %':>8} {'syllables %':>12} {'CPU s':>14}")
    for voice in asked.voices or CHINESE_VOICES:
        print(measure(voices, recogniser, voice), flush=True)


if __name__ == "__main__":
    main()
