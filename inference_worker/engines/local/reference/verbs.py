"""The past forms of English verbs."""

import re

_IRREGULAR_VERBS = """
arise arose arisen, be was been, bear bore borne, beat beat beaten, become became become, begin began begun,
bend bent bent, bet bet bet, bite bit bitten, bleed bled bled, blow blew blown, break broke broken, bring
brought brought, build built built, burst burst burst, buy bought bought, catch caught caught, choose chose
chosen, come came come, cost cost cost, creep crept crept, cut cut cut, deal dealt dealt, dig dug dug, do did
done, draw drew drawn, drink drank drunk, drive drove driven, eat ate eaten, fall fell fallen, feed fed fed,
feel felt felt, fight fought fought, find found found, fly flew flown, forbid forbade forbidden, forget forgot
forgotten, forgive forgave forgiven, freeze froze frozen, get got got, give gave given, go went gone, grow grew
grown, hang hung hung, have had had, hear heard heard, hide hid hidden, hit hit hit, hold held held, hurt hurt
hurt, keep kept kept, kneel knelt knelt, know knew known, lay laid laid, lead led led, leave left left, lend
lent lent, let let let, lie lay lain, light lit lit, lose lost lost, make made made, mean meant meant, meet met
met, pay paid paid, put put put, quit quit quit, read read read, ride rode ridden, ring rang rung, rise rose
risen, run ran run, say said said, see saw seen, seek sought sought, sell sold sold, send sent sent, set set
set, shake shook shaken, shine shone shone, shoot shot shot, show showed shown, shrink shrank shrunk, shut shut
shut, sing sang sung, sink sank sunk, sit sat sat, sleep slept slept, slide slid slid, speak spoke spoken,
spend spent spent, spin spun spun, split split split, spread spread spread, spring sprang sprung, stand stood
stood, steal stole stolen, stick stuck stuck, sting stung stung, strike struck struck, swear swore sworn, sweep
swept swept, swim swam swum, swing swung swung, take took taken, teach taught taught, tear tore torn, tell told
told, think thought thought, throw threw thrown, understand understood understood, wake woke woken, wear wore
worn, weep wept wept, win won won, wind wound wound, withdraw withdrew withdrawn, write wrote written
"""
_VERBS = {
    verb: (past, participle)
    for verb, past, participle in (forms.split() for forms in _IRREGULAR_VERBS.split(","))
}
_DOUBLED = """
admit ban beg chat clap commit control drop hug jog nod occur pat permit pet pin plan plug prefer refer regret
rip rob rub shop skip slip step stir stop tap travel trip wrap
"""
_STRESSED_END = frozenset(_DOUBLED.split())
"""Verbs that double their last letter."""


def past_forms(verb: str) -> tuple[str, str]:
    """The past tense and the past participle of `verb`."""
    regular = _regular_past(verb)
    return _VERBS.get(verb, (regular, regular))


def _regular_past(verb: str) -> str:
    if verb.endswith("e"):
        return f"{verb}d"
    if re.search(r"[^aeiou]y$", verb):
        return f"{verb[:-1]}ied"
    return f"{verb}{verb[-1]}ed" if verb in _STRESSED_END else f"{verb}ed"
