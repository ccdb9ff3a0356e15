"""Recognises text that is not English."""

from __future__ import annotations

import re
import unicodedata

_LEAST_LETTERS = 2
_LEAST_WORDS = 2
_CERTAIN_MARKERS = 2

_FOREIGN_WORDS = """
sprichst sprechen parlez-vous parle français parlez hablas habla español parli italiano fala português
der die das ist nicht und ich du wir ihr sie ein eine einen wie was wo wer warum wann mit auf für
von zu den dem sind kann kannst bitte mein dein heute gibt hast heißt heisst welche welcher viel
wieviel le la les des est sont je tu nous vous ne pas et que qui quel quelle quels pourquoi comment
où dans une un avec pour sur mon ton c'est qu'est-ce il elle au aux ce cette fait merci bonjour el
los las es son yo no y qué quién cuál cuánto cómo dónde por para con una de del en mi está estás
hola gracias puedes eres hace lo gli è sono io non e che chi quale quanto come dove perché per di
nel mio ciao grazie o os as são eu não qual onde com uma da do na meu você olá obrigado het een is
niet ik jij wij wat waar waarom hoe met voor van zijn mijn
"""
_ALSO_ENGLISH_WORDS = """
is was die no me as es come son per con van sur pas tu un en y e o la le de il ton mi ne den do na
elle au io lo das von non wat hoe met an pour
"""
_ENGLISH_WORDS = """
is was die no me as es come son per con van sur pas tu un en y e o la le de il ton mi ne den do na
elle au io lo das von non wat hoe met an pour
"""
_FOREIGN = frozenset(_FOREIGN_WORDS.split())
_MARKERS = _FOREIGN - frozenset(_ALSO_ENGLISH_WORDS.split())
_ENGLISH = frozenset(_ENGLISH_WORDS.split())


def is_not_english(text: str) -> bool:
    """True for another script, or for words of other languages where English ones are missing.

    Rather False than True: a single foreign word or name is fine.
    """
    letters = [character for character in text if character.isalpha()]
    foreign = sum(not unicodedata.name(character, "").startswith("LATIN") for character in letters)
    if foreign >= _LEAST_LETTERS and foreign > len(letters) / 2:
        return True
    words = re.findall(r"[^\W\d_]+(?:['-][^\W\d_]+)*", text.lower())
    if len(words) < _LEAST_WORDS:
        return False
    markers = sum(word in _MARKERS for word in words)
    foreign = sum(word in _FOREIGN for word in words)
    english = sum(word in _ENGLISH and word not in _FOREIGN for word in words)
    if english:
        return markers >= _CERTAIN_MARKERS and markers > english * 2
    return markers >= 1 and foreign >= _CERTAIN_MARKERS
