"""Requests in everyday words: contractions, tails, goodbyes, jokes, checks of facts, and who speaks."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from antiphon.inference_worker.engines.local.rules.answer import answer
from antiphon.inference_worker.engines.local.rules.text import peeled, plain
from support.situations import NOW

IN_TALK = replace(NOW, previous="It is a thing.")


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("what time's it", "what time is it"),
        ("so what day's tomorrow", "so what day is tomorrow"),
        ("how'd you spell necessary", "how did you spell necessary"),
        ("where'd Napoleon die", "where did napoleon die"),
        ("d'you know any jokes", "do you know any jokes"),
        ("gimme a joke", "give me a joke"),
        ("lemme hear a story", "let me hear a story"),
        ("wanna play a quiz", "let us play a quiz"),
        ("I wanna go", "i want to go"),
        ("I've gotta go", "i have to go"),
        ("gotta go", "have to go"),
        ("dunno", "i do not know"),
        ("I dunno", "i do not know"),
        ("can ya tell me", "can you tell me"),
        ("why's the sky blue", "why is the sky blue"),
        ("why're leaves green", "why are leaves green"),
        ("how long's a day", "how long is a day"),
        ("tell me what the weather's like", "tell me what the weather is like"),
        # No such contractions
        ("who'd win a fight", "who'd win a fight"),
        ("how'd you like to play", "how'd you like to play"),
        ("which country's capital is Oslo", "which country's capital is oslo"),
        ("see ya", "see ya"),
        ("my dog's name", "my dog's name"),
        ("a day's work", "a day's work"),
    ],
)
def test_contractions(text: str, form: str) -> None:
    assert plain(text) == form


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("what's the capital of turkey while we're at it", "Ankara"),
        ("What's the capital of Turkey, do you know?", "Ankara"),
        ("What's the capital of Kazakhstan, out of interest?", "Astana"),
        ("what's the capital of nigeria by any chance", "Abuja"),
        ("What's the capital of Brazil, I always forget?", "Brasília"),
        ("who wrote Hamlet, just out of curiosity", "Shakespeare"),
        ("how many bones are in the human body, any idea?", "206"),
        ("what is 12 times 12, off the top of your head", "144"),
        ("remind me what the capital of australia is", "Canberra"),
        ("Remind me what day it is.", "Today is Saturday."),
        ("I forgot what the capital of switzerland is", "Bern"),
        ("I can't remember the capital of switzerland", "Bern"),
        ("do you by any chance know the capital of morocco", "Rabat"),
        ("do you perhaps know the capital of peru", "Lima"),
        ("Have you any idea who wrote Hamlet?", "Shakespeare"),
        ("have you got any idea what time it is", "It is 2:05 PM."),
        ("any idea what day it is?", "Today is Saturday."),
        ("I wonder who painted the Mona Lisa.", "Leonardo"),
        ("let me ask you the capital of pakistan", "Islamabad"),
        ("what time's it", "It is 2:05 PM."),
        ("so what day's tomorrow", "Tomorrow is Sunday"),
        ("how'd you spell necessary", "N, E, C, E, S, S, A, R, Y"),
        ("do you happen to have the time", "It is 2:05 PM."),
    ],
)
def test_a_known_question_behind_other_words(asked: str, expected: str) -> None:
    assert expected in str(answer(asked, IN_TALK))


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("what do you know", "what do you know"),
        ("how many languages do you know", "how many languages do you know"),
        ("who else do you know", "who else do you know"),
        ("what is the word i forgot", "what is the word i forgot"),
        ("what did i always forget", "what did i always forget"),
        ("remind me to call mom", "remind me to call mom"),
        ("i forgot my keys", "i forgot my keys"),
        ("i cannot remember the joke", "i cannot remember the joke"),
        ("i wonder about that", "i wonder about that"),
    ],
)
def test_words_that_belong_to_the_question(text: str, kept: str) -> None:
    assert list(peeled(text))[-1] == kept


_FAREWELL = "Goodbye! It was nice to talk with you."
_WELCOME = "You are welcome."
_GOES = "All right. Say goodbye to end the call."


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("okay cool talk to you later", _FAREWELL),
        ("okay night night sleep tight", _FAREWELL),
        ("I'm off now, see you next week", _FAREWELL),
        ("alright gotta run bye", _FAREWELL),
        ("Sleep tight.", _FAREWELL),
        ("good night sweet dreams", _FAREWELL),
        ("see you next week", _FAREWELL),
        ("see you on Monday then", _FAREWELL),
        ("ciao", _FAREWELL),
        ("so long", _FAREWELL),
        ("well so long then", _FAREWELL),
        ("until next time", _FAREWELL),
        ("catch you later alligator", _FAREWELL),
        ("okay bye for now take care of yourself", _FAREWELL),
        ("i'm going to bed now good night", _FAREWELL),
        ("Thanks for everything, I have to go now, bye bye.", _FAREWELL),
        ("lovely, talk to you tomorrow", _FAREWELL),
        ("right then, cheerio", _FAREWELL),
        ("have a lovely weekend", _FAREWELL),
        ("Right, I'd better let you go.", _GOES),
        ("anyway I'd better let you go", _GOES),
        ("I've gotta go now", _GOES),
        ("gotta go", _GOES),
        ("I'm hanging up now", _GOES),
        ("I should get going", _GOES),
        ("thank you that was really helpful", _WELCOME),
        ("That's everything, thank you.", _WELCOME),
        ("okay thanks that's everything", _WELCOME),
        ("that's all for today thanks", _WELCOME),
        ("thanks mate I appreciate it", _WELCOME),
        ("thanks a million", _WELCOME),
        ("much appreciated", _WELCOME),
        ("ta", _WELCOME),
        ("thanks, you've been very helpful", _WELCOME),
        ("thank you so much, that's very kind of you", _WELCOME),
        ("cheers, that's all I needed to know", _WELCOME),
        ("I really appreciate your help", _WELCOME),
        ("perfect, thanks a bunch", _WELCOME),
    ],
)
def test_goodbyes_and_thanks(said: str, expected: str) -> None:
    assert answer(said, IN_TALK) == expected


@pytest.mark.parametrize(
    "said",
    [
        "thank you but that is wrong",
        "thanks to you I got lost",
        "thanks I want a joke",
        "I sleep well",
        "it was so long",
        "I see you",
        "will I see you tomorrow",
        "when will I see you next week",
        "he said goodbye",
        "my boss said see you later",
        "what is good night in french",
        "I hate long goodbyes",
        "see you in court",
        "I take care of my mother",
        "they have to go now",
        "does she have to run",
        "Thanksgiving dinner ideas",
        "he did not let you go",
        "I had a good night",
        "the ship is hanging up now",
        "that is all wrong",
        "that is everything I hate",
        "do you know how to say bye",
        "I let the dog go",
        "I should get going on my homework",
    ],
)
def test_what_is_no_goodbye_and_no_thanks(said: str) -> None:
    assert answer(said, IN_TALK) not in (_FAREWELL, _WELCOME, _GOES)


_LIFELESS = "I am a computer program. I have no feelings, no body and no life of my own."


@pytest.mark.parametrize(
    "asked",
    [
        "Do you sleep?", "do you ever dream", "Do you have a dog?", "have you got any friends",
        "Do you have any plans for the weekend?", "Did you sleep well?", "Are you happy?", "are you married",
        "Were you born in France?", "will you marry me", "have you ever been to Paris", "Have you read Dune?",
        "Do you ever get tired?", "would you like some tea", "do you really love me",
        "did you have a nice weekend",
        "are you working today", "have you eaten yet", "Are you afraid of dying?", "do you have feelings",
        "do you guys have a family", "do you still get bored", "did you go to school", "are you in love",
    ],
)  # fmt: skip
def test_a_program_has_no_life(asked: str) -> None:
    assert answer(asked, IN_TALK) == _LIFELESS


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("Are you good with numbers?", "calculate"),
        ("are you any good at geography", "calculate"),
        ("do you do conversions", "convert units"),
        ("do you handle units", "convert units"),
        ("do you cover history", "what things and words mean"),
        ("do you offer any games", "quiz"),
        ("do you do quizzes", "quiz"),
        ("do you charge for this", "free and open source"),
        ("do you charge anything", "free and open source"),
        ("are you called antiphon", "Yes, I am Antiphon"),
        ("is your name antiphon", "Yes, I am Antiphon"),
        ("why are you called antiphon", "answer each other"),
        ("how do you spell your name", "A, N, T, I, P, H, O, N"),
        ("did you make that up", "makes mistakes"),
        ("did you just make that up", "makes mistakes"),
        ("would you lie to me", "makes mistakes"),
        ("were you right about that", "makes mistakes"),
        ("are you ok with me asking silly questions", "I do not mind"),
        ("do you mind if I ask you something", "I do not mind"),
        ("do you guys have a phone number", "no telephone number"),
        ("would you rather be a cat or a dog", "no opinion"),
        ("have you been updated recently", "1.2.3"),
    ],
)
def test_questions_about_what_it_does(asked: str, expected: str) -> None:
    assert expected in str(answer(asked, IN_TALK))


@pytest.mark.parametrize(
    "asked",
    [
        "do you have a good recipe for pancakes",
        "do you still have the recipe",
        "do you have a tip for my garden",
        "do you follow me",
        "did you hear what I said",
        "do you know a good way to sleep",
        "would you say that is true",
        "have you considered the other way",
        "do you think dogs dream",
        "do you want me to tell you more",
        "would you like to hear my poem",
        "are you saying that cats dream",
        "did you mean the other one",
        "do you have an example with dogs",
        "are you able to translate",
        "do you agree that dogs have feelings",
        "do you get what I mean",
        "have you heard of the band Queen before",
        "do you recommend a dog or a cat",
        "will you help me with my family tree",
    ],
)
def test_no_life_is_no_answer_to_other_questions(asked: str) -> None:
    assert answer(asked, IN_TALK) != _LIFELESS


def test_what_it_made_up_and_what_it_looked_up() -> None:
    situation = replace(IN_TALK, said=("What is 17 times 23?",), previous="17 times 23 is 391.")
    assert answer("Did you make that up?", situation) == "No, I calculated that."


_JOKE, _FACT, _STORY = (
    answer(asked, IN_TALK)
    for asked in ("Tell me a joke.", "Tell me a fun fact.", "Tell me a story.")
)
_AFTER_A_JOKE = replace(IN_TALK, said=("Tell me a joke.",), previous=str(_JOKE))


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("a joke please", _JOKE),
        ("any jokes", _JOKE),
        ("some jokes please", _JOKE),
        ("Can I have a joke?", _JOKE),
        ("can i hear a joke", _JOKE),
        ("let's hear a joke", _JOKE),
        ("lemme hear a good joke", _JOKE),
        ("Do you have a joke for me?", _JOKE),
        ("got any jokes", _JOKE),
        ("any good jokes", _JOKE),
        ("gimme a joke", _JOKE),
        ("d'you know any jokes", _JOKE),
        ("do you tell jokes", _JOKE),
        ("i want a joke", _JOKE),
        ("I would like to hear a joke.", _JOKE),
        ("tell me a joke for my kids", _JOKE),
        ("another joke please", _JOKE),
        ("One more joke.", _JOKE),
        ("a fun fact please", _FACT),
        ("got any fun facts", _FACT),
        ("give us a fact", _FACT),
        ("another fact please", _FACT),
        ("do you know any interesting facts", _FACT),
        ("another story please", _STORY),
        ("lemme hear a story", _STORY),
        ("can we have a story", _STORY),
        ("do you have a bedtime story", _STORY),
        ("any stories", _STORY),
        ("do you tell stories", _STORY),
    ],
)
def test_short_requests(asked: str, expected: str | None) -> None:
    assert expected
    assert answer(asked, IN_TALK) == expected


@pytest.mark.parametrize(
    "asked",
    [
        "another joke please", "One more joke.", "tell me one more", "do you know another one",
        "have you got another one", "got any more", "one more please", "tell me one my kids would like",
        "tell me a better one", "do you have any more",
    ],
)  # fmt: skip
def test_another_joke(asked: str) -> None:
    said = answer(asked, _AFTER_A_JOKE)
    assert said != _JOKE
    assert said == answer("Tell me another one.", _AFTER_A_JOKE)


_GLAD = "I am glad. Shall I tell another one?"
_SORRY = "I am sorry. Shall I tell another one?"


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        ("That was a bad joke.", _SORRY),
        ("That one was awful.", _SORRY),
        ("Not funny.", _SORRY),
        ("that's a terrible joke", _SORRY),
        ("that wasn't very funny", _SORRY),
        ("I didn't like that one.", _SORRY),
        ("boring", _SORRY),
        ("That was lovely.", _GLAD),
        ("that one was really good", _GLAD),
        ("I liked that one", _GLAD),
        ("good joke", _GLAD),
        ("haha very good", _GLAD),
        ("that was a great joke", _GLAD),
        ("I love it", _GLAD),
    ],
)
def test_a_verdict_on_a_joke(verdict: str, expected: str) -> None:
    assert answer(verdict, _AFTER_A_JOKE) == expected
    agreed = replace(_AFTER_A_JOKE, said=(*_AFTER_A_JOKE.said, verdict), previous=expected)
    another = answer("Yes, please.", agreed)
    assert another not in (None, _JOKE)
    again = replace(agreed, said=(*agreed.said, "Yes, please.", verdict))
    assert answer("Yes.", again) not in (None, _JOKE, another)


def test_a_verdict_on_a_story() -> None:
    situation = replace(IN_TALK, said=("Tell me a story.",), previous=str(_STORY))
    assert answer("That was lovely.", situation) == "I am glad. What else would you like to know?"
    assert answer("that was lovely", IN_TALK) is None


@pytest.mark.parametrize(
    "said",
    [
        "that is a joke", "was that a joke", "are you a joke", "no more jokes", "stop the jokes", "the joke",
        "my boss is a joke", "what is a joke", "I told a joke at work", "he knows a good joke",
        "the story of my life", "a fact of life", "explain the joke about the chicken to me",
        "that one was awful", "I liked that one", "is that a fact", "tell me one thing", "give me one reason",
        "facts are important", "I do not want a joke", "more or less",
    ],
)  # fmt: skip
def test_no_joke_is_told_unasked(said: str) -> None:
    heard = str(answer(said, IN_TALK))
    assert heard not in (_JOKE, _FACT, _STORY)
    assert "another one" not in heard


@pytest.mark.parametrize(
    ("asked", "gets"),
    [
        ("What should I get my wife for her birthday?", True),
        ("what can I buy for a friend", True),
        ("What should I give my dad for Christmas?", True),
        ("What should I buy for a new baby?", False),
        ("what should I buy for a camping trip", False),
        ("what should I get for my kitchen", False),
        ("what should I give my cat to eat", False),
    ],
)
def test_gifts_are_for_persons(asked: str, *, gets: bool) -> None:
    assert ("good gift" in str(answer(asked, replace(IN_TALK, now=_GIFT_DAY)))) is gets


_GIFT_DAY = next(
    day
    for day in (datetime(2026, 11, date, tzinfo=UTC) for date in range(1, 8))
    if "good gift" in str(answer("What should I get my wife?", replace(IN_TALK, now=day)))
)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("Is Berlin the capital of Germany?", "Yes. The capital of Germany is Berlin."),
        ("is rio the capital of brazil", "No. The capital of Brazil is Brasília."),
        ("isn't istanbul the capital of turkey", "No. The capital of Turkey is Ankara."),
        ("is it istanbul that's the capital of turkey", "No. The capital of Turkey is Ankara."),
        ("Is Oslo Norway's capital?", "Yes. The capital of Norway is Oslo."),
        ("is the yen the currency of japan", "Yes. The currency of Japan is the yen."),
        ("The capital of New Zealand is Auckland, right?",
         "No. The capital of New Zealand is Wellington."),
        ("Paris is the capital of France, isn't it?", "Yes. The capital of France is Paris."),
        ("is it true that Bern is the capital of Switzerland", "Yes. The capital of Switzerland is Bern."),
        ("Is Pretoria the capital of South Africa?",
         "South Africa has three capitals: Pretoria, Cape Town and Bloemfontein."),
        ("Is Jupiter the largest planet?", "Yes. Jupiter is the largest planet"),
        ("Is Saturn the largest planet?", "No. Jupiter is the largest planet"),
        ("Is Earth the largest planet?", "Jupiter is the largest planet"),
        ("Did Shakespeare write Hamlet?", "Yes. William Shakespeare wrote Hamlet."),
        ("did picasso paint the mona lisa", "No. Leonardo da Vinci painted the Mona Lisa."),
        ("World War Two ended in 1944, right?", "No. The Second World War ended in 1945."),
        ("did the first world war begin in 1914", "Yes. The First World War began in 1914."),
        ("The Titanic sank in 1912, didn't it?", "Yes. The Titanic sank on 15 April 1912."),
        ("The sun goes around the earth, doesn't it?", "The Earth goes around the sun"),
        ("Paris is in Germany, isn't it?", "Paris is the capital and largest city of France"),
        ("Is Mount Everest in Africa?", "Mount Everest is"),
        ("Is a strawberry a fruit?", "A strawberry is"),
        ("And a banana, is that a berry?", "a banana is a berry"),
        ("and a strawberry is that a berry", "a strawberry is not"),
        ("What about a shark, is that a mammal?", "A shark is a fish"),
        ("what about pluto is that still a planet", "dwarf planet"),
        ("And a whale, is it a fish?", "mammals, not fish"),
        ("What about dolphins, are they fish?", "mammals, not fish"),
        ("A tomato, is that a fruit or a vegetable?", "A tomato is a fruit to a botanist"),
        ("how many years did world war two last", "from 1939 to 1945"),
    ],
)  # fmt: skip
def test_a_check_of_a_fact(asked: str, expected: str) -> None:
    heard = str(answer(asked, IN_TALK))
    assert expected in heard
    assert expected.startswith(("Yes", "No")) == heard.startswith(("Yes", "No"))


@pytest.mark.parametrize(
    "asked",
    [
        "Is Anna the boss of the office?", "is that the capital you meant", "turn right", "I am right",
        "Is she the mother of your friend?", "my friend is in Paris, right?", "Is dinner in the oven?",
        "the meeting ended in 1944 words, right?", "Did my mother write Hamlet on the list?",
        "And my sister, is that a problem?", "Yes, is that a problem?", "the capital letter is big, right",
        "is my phone in my bag", "what about lunch, is it ready", "He is in, isn't he?",
    ],
)  # fmt: skip
def test_no_check_of_a_fact(asked: str) -> None:
    heard = str(answer(asked, IN_TALK))
    assert not heard.startswith(("Yes. ", "No. "))
    assert "capital of" not in heard


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("Who was president of the United States in 1990?",
         "In 1990 the president of the United States was George H. W. Bush."),
        ("who was the us president in 1963",
         "In 1963 the president of the United States was John F. Kennedy, and then Lyndon B. Johnson."),
        ("Who was the president of America during World War Two?",
         "From 1939 to 1945 the president of the United States was Franklin D. Roosevelt, and then"
         " Harry S. Truman."),
        ("Who was the prime minister of Britain in 1940?",
         "In 1940 the British prime minister was Neville Chamberlain, and then Winston Churchill."),
        ("who was the british prime minister in nineteen eighty-five",
         "In 1985 the British prime minister was Margaret Thatcher."),
        ("Who was the chancellor of Germany in 1990?", "In 1990 the German chancellor was Helmut Kohl."),
        ("Who was the queen of England in 1850?", "In 1850 the British monarch was Queen Victoria."),
        ("Who was the king of England in 1600?",
         "In 1600 the British monarch was Queen Elizabeth the First."),
        ("Who was the president of France in 1965?",
         "In 1965 the president of France was Charles de Gaulle."),
        ("In 1995, who was the president of France?",
         "In 1995 the president of France was François Mitterrand, and then Jacques Chirac."),
        ("who was the mayor of london in 1990", "I do not know for certain who that was."),
        ("who was the president of peru in 1990", "I do not know for certain who that was."),
        ("who was the king of england in 1200", "I do not know for certain who that was."),
        ("who was the us president in 2040", "I do not know for certain who that was."),
        ("who was the pope back then", "I do not know for certain who that was."),
    ],
)  # fmt: skip
def test_who_held_an_office(asked: str, expected: str) -> None:
    assert answer(asked, IN_TALK) == expected


def test_who_held_an_office_in_the_time_of_the_answer_before() -> None:
    asked = "who was the prime minister of britain then"
    war = replace(IN_TALK, previous="The Second World War ended in 1945.")
    assert answer(asked, war) == (
        "In 1945 the British prime minister was Winston Churchill, and then Clement Attlee."
    )
    assert answer(asked, IN_TALK) == "I do not know for certain who that was."


@pytest.mark.parametrize(
    "asked",
    [
        "who was the president", "who was the first president of the united states", "who was the king of rock",
        "who was that in 1990", "who was the president of the chess club in my school",
        "who was your president in the game",
    ],
)  # fmt: skip
def test_no_office_of_a_year(asked: str) -> None:
    assert "for certain" not in str(answer(asked, IN_TALK))


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("who's that", "My name is Antiphon"),
        ("who have I reached", "My name is Antiphon"),
        ("what number have I reached", "My name is Antiphon"),
        ("which company is this", "My name is Antiphon"),
        ("is this customer service", "No, I am Antiphon"),
        ("Is this the pharmacy?", "No, I am Antiphon"),
        ("Have I reached the bank?", "No, I am Antiphon"),
        ("is this the weather service", "No, I am Antiphon"),
        ("am I through to reception", "No, I am Antiphon"),
        ("am I talking to a real person", "not a person"),
        ("am I speaking to a machine", "not a person"),
    ],
)
def test_who_is_speaking(asked: str, expected: str) -> None:
    assert expected in str(answer(asked, replace(IN_TALK, previous="")))


@pytest.mark.parametrize(
    "asked",
    [
        "is this the right way to do it", "is this the bank holiday", "have I reached the end",
        "is this a joke",
        "what number is prime", "is this the library you mean", "which company is the largest",
        "who is that man",
    ],
)  # fmt: skip
def test_nobody_asks_who_is_speaking(asked: str) -> None:
    assert "Antiphon" not in str(answer(asked, IN_TALK))


def test_an_age_does_not_end_the_talk() -> None:
    talk = replace(IN_TALK, said=("Should I take up running?",), previous="It is never too late.")
    assert "talk about" not in str(answer("I'm fifty two", talk))


_CONVERSATIONS: tuple[dict[str, str], ...] = (
    {
        "I'm moving to Lisbon in March.": "",
        "What language do they speak there?": "In Portugal people speak Portuguese.",
        "How do I say good morning in it?": "I know English only",
        "What currency do they use?": "The currency of Portugal is the euro.",
        "What time is it there?": "In Lisbon it is",
    },
    {
        "What's a 15 percent tip on 84 dollars 50?": "15 percent of 84.50 is 12.675.",
        "What about 20 percent?": "20 percent of 84.50 is 16.9.",
        "Split that between 3 people.": "That is about 5.63 each.",
    },
    {"What is 90 plus 30?": "120", "Divide it 4 ways.": "That is 30 each."},
    {
        "How many r's are in strawberry?": "The letter R appears 3 times in strawberry.",
        "And how many letters does it have?": "The word strawberry has 10 letters.",
        "How often is the letter w in it?": "The letter W appears once in strawberry.",
        "How many z's are in it?": "The letter Z does not appear in strawberry.",
    },
    {
        "Can you help me name my new puppy? He is brown and very lazy.": "How about ",
        "Something funnier.": "How about ",
    },
    {
        "Ask me a typical interview question.": "?",
        "Another question.": "?",
        "Give me a compliment.": "somebody who listens",
    },
    {
        "What is the tallest building in the world?": "Burj Khalifa",
        "How tall is it in feet?": "",
        "Which is prettier, Paris or Rome?": "I have no opinion",
        "Is it a good book?": "I have no opinion",
    },
    {
        "What can I do about a headache?": "Drink some water",
        "How do I get rid of my headache?": "Drink some water",
        "What helps with a sore throat?": "Warm drinks",
        "What is the largest animal that ever lived?": "The blue whale",
    },
    {
        "Give me a recipe for lasagna.": "Layer pasta sheets",
        "What can I make with eggs and potatoes?": "You could",
        "How many is two dozen?": "That is 24.",
    },
)


@pytest.mark.parametrize("asked", ["How many a day?", "How many I need?", "How often is a cat?"])
def test_a_letter_is_counted_only_in_a_word(asked: str) -> None:
    assert "letter" not in str(answer(asked, NOW))


@pytest.mark.parametrize("turns", _CONVERSATIONS)
def test_a_conversation(turns: dict[str, str]) -> None:
    said: tuple[str, ...] = ()
    previous = ""
    for asked, expected in turns.items():
        previous = answer(asked, replace(NOW, said=said, previous=previous)) or ""
        assert expected in previous, asked
        said = (*said, asked)


@pytest.mark.parametrize(
    ("said", "reaction"),
    [
        ("I just adopted a dog.", "That is great!"),
        ("We finally got the keys to our new house.", "That is great!"),
        ("I broke up with my girlfriend.", "I am sorry to hear that."),
        ("My flight got cancelled.", "I am sorry to hear that."),
        ("I never won anything in my life.", "I see."),
        ("I lost five kilos in two months.", "I see."),
        ("My watch was not broken after all.", "I see."),
        ("My phone does not work any more.", "I am sorry to hear that."),
    ],
)
def test_a_reaction_to_what_happened(said: str, reaction: str) -> None:
    assert str(answer(said, NOW)).startswith(reaction)
