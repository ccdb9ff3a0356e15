"""The rules about what the user shows, in a picture or to the camera."""

import re
from collections.abc import Sequence

from antiphon.inference_worker.engines.local.reference.words import plural
from antiphon.inference_worker.engines.local.rules.follow_up import is_passing
from antiphon.inference_worker.engines.local.rules.situation import (
    NAME,
    STILL_LOOKING,
    Answer,
    Situation,
)
from antiphon.inference_worker.engines.local.rules.text import (
    COMMON_WORDS,
    LONGEST_CHARS,
    peeled,
    plain,
)
from antiphon.inference_worker.engines.local.sight.colours import COLOURS
from antiphon.inference_worker.engines.local.sight.scene import (
    Scene,
    Thing,
    joined,
    number,
    quoted,
    with_article,
)
from antiphon.inference_worker.engines.local.sight.things import kind_of, names_of

_NOBODY = "I see objects and text, but I do not recognise people."
_NOTHING_READ = "I see no text that I can read."

_HERE = (
    r"(?: (?:in|on|at|to) (?:the|this|that|my) (?:picture|image|photo|photograph|camera|video|table|scene|frame"
    r"|background|screen)| (?:in front of|around|behind) (?:you|me|the camera)| here| there| now| right now"
    r"| (?:do|can|could) you see| you can see| visible| to see| with me| in the room)*"
)
_PICTURE = r"(?:picture|image|photo|photograph|scene|camera|video|frame)"
_ARTICLE = r"(?:a |an |any |some |the |my |that |this )?"
_WHO = r"the (?:man|woman|person|girl|boy|child)"
_WRITING = (
    r"(?:sign|text|label|paper|page|note|screen|board|display|card|book|poster|letter|document|shirt|picture"
    r"|image|photo|writing|headline|title|message|number|plate|writing|whiteboard|it|this|that|there)"
)


def _scene(sentence: str | None = None) -> Answer:
    """What is seen, or `sentence`; without a scene, why there is none."""

    def answer(_: re.Match[str], situation: Situation) -> str:
        if situation.scene is None:
            return situation.blind
        return sentence or situation.scene.sentence("I see")

    return answer


def _this(found: re.Match[str], situation: Situation) -> str | None:
    """At the beginning of a conversation without a picture, "this" may be the assistant."""
    if situation.scene is not None:
        return situation.scene.sentence("I see")
    blind = _blind(situation, unclear=True)
    if not blind or situation.persona or "this" not in found[0]:
        return blind
    return f"This is {NAME}, a small voice assistant. {blind}"


def _blind(situation: Situation, *, unclear: bool) -> str | None:
    """Why nothing is seen. `unclear`: "this" may be what was said before."""
    return None if unclear and situation.said else situation.blind


def _heard_see(_: re.Match[str], situation: Situation) -> str | None:
    """The recogniser hears half of the voices say "What do you say?" for "What do you see?"."""
    if situation.scene is None:
        return situation.blind if situation.blind == STILL_LOOKING else None
    return situation.scene.sentence("I see")


def _again(_: re.Match[str], situation: Situation) -> str | None:
    """ "And now?": the last question about what is shown, or what is seen if there was no question."""
    scene = situation.scene
    if scene is None:
        return None
    earlier = (
        text for text in reversed(situation.said) if not (is_passing(text) or _is_again(text))
    )
    asked = next(earlier, None)
    return scene.sentence("I see") if asked is None else _about_scene(asked, situation)


def _is_again(text: str) -> bool:
    return any(map(_AGAIN.fullmatch, peeled(plain(text))))


def _about_scene(asked: str, situation: Situation) -> str | None:
    for form in peeled(plain(asked)):
        for pattern, row in SIGHT_ROWS:
            found = re.fullmatch(pattern, form)
            if found and (said := row(found, situation)):
                return said
    return None


def _camera(_: re.Match[str], situation: Situation) -> str:
    scene = situation.scene
    return situation.blind if scene is None else f"Yes. {scene.sentence('I see')}"


def anybody_there(_: re.Match[str], situation: Situation) -> str | None:
    """Without a picture, the question is whether the assistant is there."""
    scene = situation.scene
    if scene is None:
        return None
    if people := tuple(
        Thing(thing.name) for thing in scene.things if kind_of(thing.name) == "person"
    ):
        return Scene(people).sentence("Yes, I see")
    return f"I hear you, but I see nobody. {scene.sentence('I see')}"


def _cannot_tell(found: re.Match[str], situation: Situation) -> str | None:
    """Where a thing is, and in which state: the networks only name it."""
    scene, kind = situation.scene, kind_of(found["thing"])
    if scene is None or kind is None:
        return None
    if any(scene.count(name) for name in names_of(kind)):
        return f"I see {with_article(kind)}, but I cannot tell more than that."
    is_sought = found[0].startswith("where is")
    return f"I see no {kind}. {scene.sentence('I see')}" if is_sought else None


def _before(_: re.Match[str], situation: Situation) -> str:
    scene = situation.scene
    if scene is None:
        return situation.blind
    return situation.news or f"I only know what I see now. {scene.sentence('I see')}"


def _see_me(_: re.Match[str], situation: Situation) -> str:
    scene = situation.scene
    if scene is None:
        return situation.blind
    if scene.count("person"):
        return "Yes, I see you."
    return f"I do not see you. {scene.sentence('I see')}"


def _who(_: re.Match[str], situation: Situation) -> str | None:
    """Without a picture, the question is about the assistant, or about somebody named before."""
    return None if situation.scene is None else _NOBODY


def _read(found: re.Match[str], situation: Situation) -> str | None:
    """Without a picture, "what does it say" is about something else."""
    scene = situation.scene
    if scene is None:
        unclear = found.groupdict().get("what") in ("it", "that", "this", "there")
        return _blind(situation, unclear=unclear)
    return f"It says: {quoted(scene.text)}." if scene.text else _NOTHING_READ


def _colour(found: re.Match[str], situation: Situation) -> str | None:
    scene, groups = situation.scene, found.groupdict()
    asked, own = groups.get("thing"), groups.get("whose") == "my"
    if scene is None:
        if asked:
            return situation.blind if own or kind_of(asked) else None
        return _blind(situation, unclear="you see" not in found[0])
    if asked:
        cannot = f"I cannot tell the colour of your {asked}." if own else None
        return _colour_of(asked, scene) or cannot
    return _its_colour(scene)


def _its_colour(scene: Scene) -> str:
    if coloured := [thing for thing in scene.things if thing.colour]:
        return _describe_colour(coloured[0])
    return f"I see mainly {scene.colours}." if scene.things else f"It is {_main(scene)}."


def _colours(_: re.Match[str], situation: Situation) -> str:
    scene = situation.scene
    if scene is None:
        return situation.blind
    coloured = [f"{thing.colour} for the {thing.name}" for thing in scene.things if thing.colour]
    return f"I see mainly {joined([scene.colours, *coloured])}."


def _colour_of(asked: str, scene: Scene) -> str | None:
    """None for a thing that is not in the picture: the sky, for example, is a question for the model."""
    if asked in ("picture", "image", "photo", "photograph", "scene"):
        return f"The {asked} is mainly {scene.colours}."
    if asked in ("background", "wall"):
        return f"The {asked} is {scene.ground}."
    kind = kind_of(asked)
    for thing in scene.things:
        if thing.name in names_of(kind):
            return _describe_colour(thing)
    if asked in (
        "text",
        "writing",
        "letter",
        "circle",
        "square",
        "shape",
        "triangle",
        "dot",
        "paper",
    ):
        return f"The {asked} is {_main(scene)}."
    return None


def _main(scene: Scene) -> str:
    return scene.subject or scene.ground


def _describe_colour(thing: Thing) -> str:
    if not thing.colour:
        return f"I see {with_article(thing.name)}, but I cannot tell its colour."
    return f"The {thing.name} is {thing.colour}."


def _is_colour(found: re.Match[str], situation: Situation) -> str | None:
    scene, asked = situation.scene, found["colour"].replace("gray", "grey")
    if scene is None:
        return None
    said = _colour_of(found["thing"], scene) if found["thing"] else _its_colour(scene)
    if said is None or "cannot tell" in said:
        return said
    return f"Yes. {said}" if re.search(rf"\b{asked}\b", said) else f"No. {said}"


def _either(found: re.Match[str], situation: Situation) -> str | None:
    """ "Is it a cat or a dog?" needs a picture."""
    scene = situation.scene
    kinds = [kind_of(found["thing"]), kind_of(found["other"])]
    if scene is None or None in kinds:
        return None
    seen = [kind for kind in kinds if kind and any(scene.count(name) for name in names_of(kind))]
    if not seen:
        return f"I see neither. {scene.sentence('I see')}"
    return f"I see {joined([with_article(kind) for kind in seen])}."


def _is_there(found: re.Match[str], situation: Situation) -> str | None:
    """Only for what the networks know: "Is there life on Mars?" is no question about a picture."""
    asked = found["thing"]
    kind = kind_of(asked)
    scene = situation.scene
    if scene is None:
        return situation.blind if _is_shown(found, kind) else None
    if kind is None:
        return None
    seen = [thing for thing in scene.things if thing.name in names_of(kind)]
    if seen:
        return Scene(tuple(seen)).sentence("Yes, I see")
    if scene.kind in names_of(kind):
        return f"Yes, I see {with_article(scene.kind)}."
    return f"No, I see no {kind}. {scene.sentence('I see')}"


def _how_many(found: re.Match[str], situation: Situation) -> str | None:
    scene, kind = situation.scene, kind_of(found["thing"])
    shown = _is_shown(found, kind)
    if scene is None:
        return situation.blind if shown else None
    if kind is None:
        return f"I cannot count {found['thing']}." if shown else None
    count = sum(scene.count(name) for name in names_of(kind))
    return f"I see {number(count)} {kind if count == 1 else plural(kind)}."


def _is_shown(found: re.Match[str], kind: str | None) -> bool:
    """Whether the question is about what the user shows: "Are there any planets?" is not."""
    if re.search(r"\bsee\b|picture|image|photo|camera|in front", found[0]):
        return True
    return kind is not None and not found.groupdict().get("pronoun")


def _news(_: re.Match[str], situation: Situation) -> str:
    if situation.scene is None:
        return situation.blind
    return situation.news or f"I noticed no change. {situation.scene.sentence('I see')}"


_AGAIN = re.compile(
    r"(?:(?:and|so|but|what about|how about) )*(?:now|here|this|that|this 1|that 1|this time)(?: now)?"
)
_NAME = r"(?P<thing>[a-z][a-z-]*(?: [a-z][a-z-]*){0,2}?)"
_COLOUR_NAME = rf"(?P<colour>{'|'.join(COLOURS)}|gray)"


def _rows(answer: Answer, *patterns: str) -> list[tuple[str, Answer]]:
    return [(pattern, answer) for pattern in patterns]


SIGHT_ROWS: tuple[tuple[str, Answer], ...] = (
    *_rows(
        _see_me,
        r"(?:can|do|could) you see (?:me|my face)(?: now| here| well)?|are you able to see me",
    ),
    *_rows(
        _scene(),
        rf"what (?:do|can|could|did) you (?:see|recogni[sz]e)(?: exactly)?{_HERE}|what else do you see{_HERE}",
        rf"(?:can|do|could) you see (?:this|that|it|anything|something|what i (?!mean|am saying"
        rf"|want)[\w ]+|the {_PICTURE})(?: now)?",
        rf"describe (?:(?:the|this|that|my) {_PICTURE}|what you see)|tell me what you see",
        rf"what (?:is|are) (?:in|on|shown in|shown on|visible in) (?:this|the|that|my) {_PICTURE}",
        rf"what does (?:this|the|that) {_PICTURE} show",
        r"what am i (?:holding|showing)(?: up| you| to you| in my hands?| in front of the camera| now)*",
        r"what (?:do i have|is) in my hands?|look at (?:this|me|that|it)|what is there to see",
        r"what is (?:in front of (?:you|me|the camera)|on the table)",
        rf"what (?:objects|things|animals) (?:do|can) you see{_HERE}|name (?:the|all) objects(?: you see)?",
    ),
    *_rows(_heard_see, rf"what (?:do|can) you (?:say|sing){_HERE}"),
    *_rows(_again, _AGAIN.pattern),
    *_rows(
        _camera,
        r"is (?:the|my|your) camera (?:on|working|running|active)(?: now)?|does (?:the|my|your) camera work"
        r"|(?:can|do) you see(?: now| anything now)?",
    ),
    *_rows(
        _before,
        rf"what (?:did you see|was (?:there|in the {_PICTURE}|on the table))"
        r" (?:before|earlier|a moment ago)(?: that)?",
    ),
    *_rows(
        _this,
        rf"what is (?:this|that)(?: thing| object| supposed to be)?{_HERE}|describe (?:this|it)",
        r"(?:what|which)(?: kind of)? (?:thing|object|animal|picture|fruit|vehicle) is (?:this|that|it)",
        r"what does (?:this|it) look like",
    ),
    *_rows(
        _scene("I recognise objects and text, but I cannot tell what people wear or do."),
        rf"what (?:am i|is (?:he|she|{_WHO})|are they) (?:wearing|doing)"
        r"|how do i look(?: today)?|what do i look like"
        r"|do i look (?:good|nice|ok|tired|well)",
    ),
    *_rows(
        _scene(_NOBODY),
        rf"who is (?:in (?:this|the) {_PICTURE}|{_WHO})|do you recogni[sz]e me|who do you see"
        r"|how old do i look",
    ),
    *_rows(_who, r"who (?:is|are) (?:this|that|these|those)|how old is (?:he|she)"),
    *_rows(
        _read,
        rf"read(?: out)?(?: aloud| out loud)? (?:(?:the|this|that|my) )?(?P<what>{_WRITING})"
        rf"(?: aloud| out loud| out| to me| for me)*{_HERE}",
        rf"what (?:does|do|did) (?:(?:the|this|that|my) )?(?P<what>{_WRITING}) say{_HERE}",
        rf"what is (?:written|printed)(?: (?:on|in) (?:(?:the|this|that|my) )?{_WRITING})?{_HERE}",
        rf"what (?:text|word|words|letters?|numbers?|writing) (?:do|can) you (?:see|read){_HERE}",
        rf"what is the (?:text|writing)(?: (?:on|in) (?:(?:the|this|that|my) )?{_WRITING})?{_HERE}",
        rf"what is the (?:word|number) (?:on|in) (?:(?:the|this|that|my) )?{_WRITING}",
        r"(?:what|which) (?:text|word|number|letter) is (?P<what>this|that|it)",
        rf"(?:can|do) you (?:see|read) (?:any |the |this )?(?:text|writing|words?|sign){_HERE}",
        rf"can you read (?P<what>this|that|it){_HERE}",
        rf"is there (?:any |some )?(?:text|writing)(?: to read)?{_HERE}",
    ),
    *_rows(
        _colours,
        rf"what colou?rs (?:(?:do|can) you see|are (?:there|in (?:the|this) {_PICTURE})){_HERE}",
        r"what colou?rs is (?:it|this|that)",
    ),
    *_rows(
        _colour,
        r"(?:what|which) colou?r (?:is|has) (?:it|this|that)(?: thing| object)?|what is (?:the|its) colou?r",
        rf"what colou?r do you see{_HERE}",
        rf"(?:what|which) colou?r (?:is|are|has|have|does) (?P<whose>the|my|this|that) {_NAME}"
        rf"{_HERE}(?: have)?",
        rf"what is the colou?r of (?P<whose>the|my|this|that) {_NAME}{_HERE}",
    ),
    *_rows(_is_colour, rf"(?:is|are) (?:it|this|that|(?:the|my|this|that) {_NAME}) {_COLOUR_NAME}"),
    *_rows(
        _is_there,
        rf"(?:is|are) there {_ARTICLE}{_NAME}{_HERE}",
        r"(?:can|do|could) you see (?!.*\b(?:what i|point|problem|difference|pattern|future)\b)"
        rf"{_ARTICLE}{_NAME}{_HERE}",
        rf"is (?P<pronoun>this|that|it) (?:a|an) {_NAME}{_HERE}",
    ),
    *_rows(
        _either,
        rf"(?:is (?:it|this|that)|do you see) (?:a|an) {_NAME} or (?:a |an )?(?P<other>[a-z][a-z ]*){_HERE}",
    ),
    *_rows(
        _how_many,
        rf"how many {_NAME}(?: (?:are|is) (?:there|in (?:the|this) {_PICTURE}|on the table))?{_HERE}",
    ),
    *_rows(
        _news,
        r"what (?:has |is |just )*(?:changed|different)(?: now| here)?|did (?:any|some)thing change",
    ),
)

_SHOWN = rf"(?:the|my|this|that) {_NAME}"
SIGHT_FALLBACKS = _rows(
    _cannot_tell,
    rf"(?:where|how [a-z]+) (?:is|are) {_SHOWN}{_HERE}",
    rf"(?:is|are|was|were|does|do|did|can|has|have) {_SHOWN} [a-z -]+",
    rf"(?:what|why|when|how|which|who)(?: [a-z]+)? (?:is|are|does|do|did|can) {_SHOWN}(?: [a-z -]+)?",
)
"""Questions about a thing that is shown, which a small model would answer with an invention."""

_POINTS = re.compile(
    r"\b(?:it|its|he|she|they|him|her|them|different|changed?)\b"
    r"|\b(?:this|that|these|those)(?: (?:an?|or|thing|object|say|look|supposed|to|for|out|aloud|here|there|now"
    rf"|{'|'.join(COLOURS)}|gray)\b|$)"
)
"""What may mean a picture, and anything else too."""
_NAMES_PICTURE = re.compile(rf"\b(?:{_PICTURE}s?|see|seen)\b")


def may_be_meant(scene: Scene, said: Sequence[str]) -> bool:
    """Whether the last of `said` may be about `scene`, which the user showed with the first of them.

    A mere "it" means the picture only while that is the subject.
    """
    *before, question = map(_last_sentence, said)
    is_subject = True
    for text in before[1:]:
        if scene.concerns(text):
            is_subject = is_subject or not _only_points(text)
        elif not is_passing(text) and not COMMON_WORDS.issuperset(text.split()):
            is_subject = False  # something else was named
    return is_subject or not _only_points(question)


def _last_sentence(text: str) -> str:
    return plain(re.split(r"(?<=[.!?])\s+", text.strip()[-LONGEST_CHARS:])[-1])


def _only_points(question: str) -> bool:
    return bool(_POINTS.search(question)) and not _NAMES_PICTURE.search(question)
