"""Rules for what the user says of the assistant and of its answers: praise, agreement and complaints."""

from __future__ import annotations

from collections.abc import Iterator

from antiphon.inference_worker.engines.local.rules.situation import Answer, fixed

_OTHER_WORDS = "I am sorry. Please ask in other words."
_BEFORE = (
    r"(?:(?:yes|yeah|yep|no|ok|oh|ah|hm+|well|but|and|so|true|sorry|now|i think|i guess|i suppose|i know|i mean"
    r"|hey) )*"
)
_QUITE = (
    r"(?:(?:so|very|quite|absolutely|totally|completely|fully|probably|actually|really|just|always"
    r"|still) )*"
)


def _rows(sentence: str, *patterns: str) -> Iterator[tuple[str, Answer]]:
    return ((pattern, fixed(sentence)) for pattern in patterns)


VERDICT_ROWS: tuple[tuple[str, Answer], ...] = (
    # Agreement
    *_rows(
        "I am glad that we agree.",
        rf"{_BEFORE}(?:you are|you might be|you may be|you could be|you were) {_QUITE}right"
        r"(?: (?:about (?:that|it|this)|there|of course|as always|as usual))*",
        rf"{_BEFORE}(?:i|we) {_QUITE}agree(?: (?:with (?:you|that|this)|completely|entirely|there|on that"
        rf"|100%))*",
        rf"{_BEFORE}i could not agree more",
        rf"{_BEFORE}(?:you have|you have got|you make|that is)(?: \w+)? ?a? (?:very |really )?(?:good "
        rf"|fair |valid |great )?"
        r"point(?: there)?|(?:good|fair|valid) point|point taken",
        rf"{_BEFORE}(?:that is (?:exactly )?what i (?:think|thought|meant)|i think so"
        rf"|my thoughts exactly)(?: too)?",
    ),
    *_rows(
        "All right. What shall we talk about?",
        rf"{_BEFORE}(?:fine |(?:just |whatever ))*(?:(?:whatever|anything) you (?:say|like|want|think)"
        rf"|if you say so"
        r"|as you (?:wish|like|say)|suit yourself|have it your way|let us agree to disagree)",
    ),
    # Complaints
    *_rows(
        _OTHER_WORDS,
        rf"{_BEFORE}you {_QUITE}(?:did not|have not|are not|never|do not) (?:even |really )?(?:answer(?:ed"
        rf"|ing)?)"
        r"(?: (?:me|(?:my|the) questions?|what i (?:asked|said)|that|it|properly))*",
        rf"{_BEFORE}(?:that|this|it) (?:is|was) (?:not|no|hardly|not even|not really) (?:an?|the"
        rf"|my) (?:answer|question)"
        r"(?: (?:to (?:my|the) question|i asked|i wanted|at all))*",
        rf"{_BEFORE}(?:that|this|it) (?:does|did) not (?:even |really )?answer (?:my|the) question(?: at all)?",
        rf"{_BEFORE}i (?:did not|never) (?:even )?(?:ask|say)(?: you)?(?: (?:that|this|for that"
        rf"|about that))",
        rf"{_BEFORE}(?:that|this|it) has (?:absolutely )?nothing to do with (?:it|this|that|me"
        r"|(?:my|the) (?:question|topic)|what i (?:said|asked|want)|anything)",
        rf"{_BEFORE}what (?:has|is|does) (?:that|this|it) (?:got to do|have to do) with"
        r" (?:it|this|that|me|anything|my question|what i (?:said|asked))",
        rf"{_BEFORE}(?:what|who) (?:on earth |the hell )?are you (?:talking|going|on) (?:on )?about",
        rf"{_BEFORE}you are {_QUITE}not making (?:any|much) sense(?: to me)?|{_BEFORE}(?:that|this"
        rf"|it) (?:does|did) not"
        r" make (?:any |much )?sense(?: to me| at all)*",
        rf"{_BEFORE}you (?:are )?{_QUITE}(?:ignored|ignoring|confused|confusing|lost|misunderstood|misheard"
        r"|misunderstanding) me(?: now| again)?",
        rf"{_BEFORE}i (?:have )?(?:already |just )*(?:told|asked|said)(?: to)? ?(?:you )?(?:that|this"
        rf"|it)(?: to you)?"
        r" (?:already|before|just now|a minute ago|earlier|twice)",
        rf"{_BEFORE}i (?:have )?(?:already|just) (?:told|asked|said)(?: you)?(?: (?:that|this|it|so))?",
        rf"{_BEFORE}(?:that|this|it) (?:is|was) (?:completely |totally )?(?:irrelevant|off topic"
        rf"|beside the point"
        r"|not relevant|not the point)",
    ),
    *_rows(
        "I cannot prove it. I make mistakes, so check what matters.",
        rf"{_BEFORE}(?:can you )?prove (?:it|that)(?: to me)?|{_BEFORE}(?:what is your|do you have (?:any|a)"
        r"|where is your|show me your) (?:proof|source|evidence)(?: for that)?",
    ),
    *_rows(
        "Sums, dates and units I calculate, and facts I look up. Everything else is a guess.",
        rf"{_BEFORE}how (?:did|do|would) you (?:work (?:that|it|this) out|know (?:that|this|it|all (?:that"
        rf"|this))"
        r"|figure (?:that|it) out|come up with that|calculate (?:that|it)|get (?:that|to that)(?: answer"
        r"| result)?)"
        r"|how do you know",
    ),
    # The beginning of news
    *_rows(
        "What?",
        r"(?:(?:hey|so|ok|oh|well|and|hi|hello|listen) )*(?:guess what(?: happened)?(?: to me)?(?: (?:today"
        r"|yesterday))?"
        r"|(?:do )?you know what|you will never (?:guess|believe)(?: (?:it|this|that|what happened))?"
        r"|i have (?:got )?(?:some |great |good |big )*news(?: for you)?"
        r"|i have (?:got )?something to tell you)",
    ),
    # Blame and praise
    *_rows(
        "I am sorry. My language model is very small and makes mistakes. Please ask in other words.",
        r"i (?:really )?(?:hate|do not like|dislike) you",
        r"you are (?:so |very |really |pretty )*(?:stupid|dumb|useless|bad|annoying|boring|terrible|wrong"
        r"|an? (?:idiot|fool|moron|bad \w+)|crazy|horrible|awful|not (?:(?:very|so|that) )*(?:smart"
        r"|clever|helpful|good|nice|funny|listening)(?: are you)?)",
        r"you (?:suck|do not understand(?: me| anything)?|understand nothing|know nothing|make no sense)",
        r"(?:no )?(?:that|this) (?:is|was) (?:wrong|not right|not correct|false|incorrect|nonsense|stupid"
        r"|a bad answer|bad|terrible|not (?:good|funny|helpful)|not what i (?:asked|meant|said))"
        r"|you (?:have )?(?:already |just )+(?:said|told me) (?:that|this|it)(?: before)?"
        r"|that makes no sense|(?:you are )?wrong",
    ),
    *_rows(
        "I am sorry that I annoyed you. What can I do better?",
        r"that (?:was|is) (?:so |very |really )?(?:rude|mean|impolite|not (?:very )?(?:nice|polite))",
        r"(?:oh )?(?:fuck|screw|damn|bugger|piss)(?: (?:you|off|this|that|it|yourself))+|go to hell|get lost"
        r"|kiss my [a-z]+|you (?:bastard|moron|jerk|loser)|idiot|moron|stupid|asshole|bullshit|this sucks",
    ),
    *_rows(
        "Thank you, that is kind of you.",
        r"you are (?:an? )?(?:real |total |absolute )?(?:lifesaver|life saver|star|angel|genius|hero|legend"
        r"|gem|treasure)",
        r"i (?:really )?(?:love|like) you(?: too| so much| very much| a lot)*",
        r"you are (?:so |very |really |the |pretty )*(?:great|good|nice|funny|smart|clever|kind|sweet|cool"
        r"|amazing|awesome|best|helpful|cute|my friend)",
        r"(?:that (?:is|was) )?(?:a )?(?:good (?:job|answer|1)|well done|nice 1|great answer)",
        r"i (?:really )?(?:like|love) your voice",
        r"(?:you have|your voice is) (?:such )?(?:an? )?(?:very |really )*(?:nice|good|great|lovely|beautiful"
        r"|pleasant|sweet)(?: voice)?",
    ),
    *_rows(
        "I am sorry. I need a moment to think.",
        r"(?:why are you|are you (?:always|usually)|you are) (?:(?:always|this|so|very|really) )*slow",
        r"why (?:does (?:it|this|that)|do you) (?:always )?(?:take|need) (?:you )?so (?:long|much time).*",
        r"what (?:took|takes|is taking) (?:you )?so long",
    ),
    *_rows(
        "I am glad. What else would you like to know?",
        r"(?:that (?:is|was) |how )?(?:very |so |really |pretty )*(?:funny|interesting|cool|nice|great"
        r"|good to know|amazing|awesome|wonderful|true|right|correct|deep|profound)",
        r"perfect|excellent|brilliant|fantastic|incredible|unbelievable|fascinating|hilarious|sweet|exactly"
        r"|absolutely|definitely|agreed|fair enough|lol|(?:ha ?)+|wow|i see|i understand|got it"
        r"|(?:that )?makes sense",
    ),
)
