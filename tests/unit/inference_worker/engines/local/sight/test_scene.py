"""The words for what a picture shows, its colours, and where text stands."""

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from PIL import Image

from antiphon.inference_worker.engines.local.reference.words import plural
from antiphon.inference_worker.engines.local.rules.answer import answer
from antiphon.inference_worker.engines.local.rules.sight import may_be_meant
from antiphon.inference_worker.engines.local.rules.situation import (
    CAMERA_OFF,
    CANNOT_SEE,
    STILL_LOOKING,
    Situation,
)
from antiphon.inference_worker.engines.local.sight.colours import COLOURS, colour_of, colours_of
from antiphon.inference_worker.engines.local.sight.reader import Area, lines_of, text_areas
from antiphon.inference_worker.engines.local.sight.scene import Scene, Thing
from antiphon.inference_worker.engines.local.sight.things import Box

NOW = Situation(datetime(2026, 11, 28, tzinfo=UTC), "1.2.3")
DESK = Scene((Thing("person"), Thing("cup"), Thing("cup"), Thing("umbrella", "red")))


@pytest.mark.parametrize(
    ("scene", "sentence"),
    [
        (DESK, "I see a person, two cups and a red umbrella."),
        (Scene((Thing("person"),), text=("Room 204",)), "I see a person. The text says: Room 204."),
        (Scene((Thing("person"),) * 12), "I see 12 people."),
        (Scene((Thing("orange"),)), "I see an orange."),
        (Scene((Thing("cup"),), kind="espresso"), "I see a cup, probably espresso."),
        (Scene(kind="acoustic guitar"), "I see an acoustic guitar."),
        (Scene(text=('Say "hello"', "now.")), "I see the text: Say hello now."),
        (Scene(ground="white", subject="red"), "I see red on white, and nothing that I recognise."),
        (Scene(ground="grey"), "I see only grey, and nothing that I recognise."),
        (Scene(ground="black", dark=True), "I see nothing, because it is dark."),
    ],
)
def test_a_scene_is_one_or_two_sentences(scene: Scene, sentence: str) -> None:
    assert scene.sentence("I see") == sentence


def test_a_long_text_is_cut_between_words() -> None:
    said = Scene(text=("word " * 100,)).sentence("I see")
    assert said.endswith("word and more.")
    assert len(said) < 200


@pytest.mark.parametrize(
    ("before", "now", "news"),
    [
        (Scene((Thing("person"),)), DESK, "Two cups and an umbrella appeared."),
        (DESK, Scene((Thing("person"), Thing("cup"))), "A cup and an umbrella disappeared."),
        (Scene(), Scene(text=("Exit",)), "The text now says: Exit."),
        (
            Scene((Thing("cat"),)),
            Scene((Thing("dog"),)),
            "A dog appeared, and a cat disappeared.",
        ),
        (DESK, DESK, ""),
    ],
)
def test_changes_are_told(before: Scene, now: Scene, news: str) -> None:
    assert now.new_since(before) == news


@pytest.mark.parametrize(
    ("question", "with_desk", "camera_off"),
    [
        ("What do you see?", "I see a person, two cups and a red umbrella.", CAMERA_OFF),
        ("Can you see me?", "Yes, I see you.", CAMERA_OFF),
        ("How many mugs are there?", "I see two cups.", CAMERA_OFF),
        ("Is there an umbrella?", "Yes, I see a red umbrella.", CAMERA_OFF),
        ("Are there any animals?", "No, I see no animal.", CAMERA_OFF),
        ("what colour is the umbrella", "The umbrella is red.", CAMERA_OFF),
        ("what colour is the cup", "I see a cup, but I cannot tell its colour.", CAMERA_OFF),
        ("What colour is my hat?", "I cannot tell the colour of your hat.", CAMERA_OFF),
        ("What has changed?", "I noticed no change.", CAMERA_OFF),
        ("What does the sign say?", "I see no text that I can read.", CAMERA_OFF),
        ("What am I wearing?", "cannot tell what people wear", CAMERA_OFF),
        ("Where is the umbrella?", "I see an umbrella, but I cannot tell more than that.", None),
        ("Is the cup full?", "I see a cup, but I cannot tell more than that.", None),
        ("What is the man thinking?", "I see a person, but I cannot tell more than that.", None),
        ("Where is the dog?", "I see no dog. I see a person, two cups and a red umbrella.", None),
        ("Is the camera on?", "Yes. I see a person, two cups and a red umbrella.", CAMERA_OFF),
        ("What did you see before?", "I only know what I see now.", CAMERA_OFF),
        # Questions of other kinds are the model's.
        ("Why is the dog so loud?", None, None),
        ("What colour is the sky?", None, None),
        ("How many people live in Berlin?", None, None),
        ("Is there life on Mars?", None, None),
        ("How many plates are in a set?", None, None),
        ("Is there a cure for colds?", None, None),
    ],
)
def test_questions_about_a_scene(
    question: str, with_desk: str | None, camera_off: str | None
) -> None:
    told = answer(question, Situation(NOW.now, NOW.version, scene=DESK))
    assert told == with_desk or (with_desk is not None and with_desk in str(told))
    assert answer(question, Situation(NOW.now, NOW.version, blind=CAMERA_OFF)) == camera_off
    blind = answer(question, NOW)
    assert blind == (camera_off and CANNOT_SEE)
    by_itself = Situation(NOW.now, NOW.version, blind="")
    assert answer(question, by_itself) is None  # a model that sees answers


@pytest.mark.parametrize(
    "again", ["And now?", "And now,", "Now.", "What about this one?", "And this?"]
)
def test_and_now_asks_the_same_about_what_is_seen_now(again: str) -> None:
    cat = replace(NOW, scene=Scene((Thing("cat", "brown"),)), blind=CAMERA_OFF)
    assert answer(again, cat) == "I see a brown cat."
    counted = replace(
        cat,
        said=("How many people are there?", "Thanks.", "And now?"),
        previous="I see one person.",
    )
    assert answer(again, counted) == "I see no people."
    elsewhere = replace(cat, said=("Tell me about penguins.",), previous="They swim well.")
    assert answer(again, elsewhere) != "I see a brown cat."
    assert answer(again, replace(counted, scene=None)) != "I see no people."


def test_with_a_picture_somebody_is_seen_or_heard() -> None:
    asked, nobody = "Is anyone there?", Scene((Thing("cup"),))
    assert answer(asked, replace(NOW, scene=DESK)) == "Yes, I see a person."
    assert answer(asked, replace(NOW, scene=nobody)) == "I hear you, but I see nobody. I see a cup."
    assert answer(asked, NOW) == "Yes, I hear you."


def test_what_do_you_see_is_understood_as_it_is_heard() -> None:
    """Half of the voices are heard with "say"."""
    for heard in ("What do you say?", "What can you say?", "What do you sing?"):
        assert answer(heard, replace(NOW, scene=DESK)) == DESK.sentence("I see")
    assert answer("What do you say?", NOW) != CANNOT_SEE
    assert answer("What do you say?", replace(NOW, blind=STILL_LOOKING)) == STILL_LOOKING


def test_this_may_be_what_was_said_before() -> None:
    off = Situation(NOW.now, NOW.version, blind=CAMERA_OFF)
    later = replace(off, said=("Tell me about penguins.",), previous="They swim well.")
    for question in (
        "What is that?",
        "What colour is it?",
        "Can you read this?",
        "What does it look like?",
    ):
        assert answer(question, off) == CAMERA_OFF
        assert answer(question, later) is None
    first = answer("So, what is this thing exactly?", off)
    assert first == f"This is Antiphon, a small voice assistant. {CAMERA_OFF}"
    assert answer("What is this?", replace(off, persona=True)) == CAMERA_OFF
    assert answer("What do you see?", later) == CAMERA_OFF


def test_the_assistant_says_what_it_recognises() -> None:
    sees = Situation(NOW.now, NOW.version, blind=CAMERA_OFF)
    assert "everyday objects" in str(answer("What can you do?", sees))
    assert "everyday objects" not in str(answer("What can you do?", NOW))
    assert "cannot see" in str(answer("What can't you do?", NOW))
    assert "cannot see" not in str(answer("What can't you do?", sees))


@pytest.mark.parametrize(
    ("question", "concerned"),
    [
        ("Is this dangerous?", True),
        ("Who drinks from the cups?", True),
        ("Which room do I go to?", True),
        ("Who wrote Romeo and Juliet?", False),
        ("What is the plural of mouse?", False),
    ],
)
def test_whether_a_question_may_be_about_a_scene(question: str, *, concerned: bool) -> None:
    scene = Scene((Thing("cup"),), text=("Room 204",))
    assert scene.concerns(question) == concerned


def test_two_pictures_keep_what_the_classifier_named() -> None:
    cat, sign = Scene(kind="cat", ground="grey"), Scene(text=("Room 204",), ground="white")
    coffee = Scene((Thing("cup"),), kind="espresso")
    assert cat.joined_with(sign).sentence("I see") == "I see a cat. The text says: Room 204."
    assert sign.joined_with(cat).objects == "a cat"
    assert cat.joined_with(coffee).objects == "a cat, a cup and espresso"
    assert coffee.joined_with(coffee).objects == "two cups and espresso"
    assert cat.joined_with(Scene((Thing("cat", "brown"),))).count("cat") == 2


def test_frames_of_one_video_are_not_added_up() -> None:
    cat, sign = Scene((Thing("cat", "brown"),), kind="cat"), Scene(text=("Room 204", "Knock"))
    cats = Scene((Thing("cat"), Thing("cat"), Thing("cup")))
    assert cat.merged_with(Scene(kind="cat")).things == cat.things
    assert cat.merged_with(cats).objects == "two cats and a cup"
    assert cats.merged_with(cat).objects == "two cats and a cup"
    assert sign.merged_with(sign).text == sign.text
    assert sign.merged_with(Scene(text=("Knock", "Exit"))).text == ("Room 204", "Knock", "Exit")


@pytest.mark.parametrize(
    ("name", "many"),
    [
        ("wine glass", "wine glasses"),
        ("red fox", "red foxes"),
        ("paintbrush", "paintbrushes"),
        ("strawberry", "strawberries"),
        ("tray", "trays"),
        ("goldfish", "goldfish"),
        ("sunglasses", "sunglasses"),
        ("cup", "cups"),
        ("person", "people"),
        ("pair of scissors", "pairs of scissors"),
        ("potato", "potatoes"),
        ("photo", "photos"),
    ],
)
def test_plurals(name: str, many: str) -> None:
    assert plural(name) == many


def test_wine_glasses_are_counted() -> None:
    table = replace(NOW, scene=Scene((Thing("wine glass"), Thing("wine glass"))))
    assert answer("What do you see?", table) == "I see two wine glasses."
    assert answer("How many wine glasses do you see?", table) == "I see two wine glasses."
    assert answer("How many glasses do you see?", table) == "I see two wine glasses."


@pytest.mark.parametrize(
    ("scene", "answers"),
    [
        (
            Scene((Thing("cup"), Thing("cat", "brown")), ground="grey", subject="grey"),
            ("The cat is brown.", "Yes. The cat is brown.", "No. The cat is brown."),
        ),
        (
            Scene((Thing("cup"),), ground="white", subject="brown"),
            (
                "I see mainly brown on white.",
                "Yes. I see mainly brown on white.",
                "No. I see mainly brown on white.",
            ),
        ),
        (
            Scene(ground="white", subject="brown"),
            ("It is brown.", "Yes. It is brown.", "No. It is brown."),
        ),
    ],
)
def test_questions_about_one_colour_agree(scene: Scene, answers: tuple[str, str, str]) -> None:
    shown = replace(NOW, scene=scene)
    asked = ("What colour is it?", "Is it brown?", "Is it grey?")
    assert tuple(answer(question, shown) for question in asked) == answers


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (["What do you see?", "What colour is it?"], True),
        (["Who is that?"], True),
        (["What do you see?", "Who was Bach?", "How old is he?"], False),
        (["What do you see?", "Who was Bach?", "Is it red?"], False),
        (["What do you see?", "Who was Bach?", "What is this?"], False),
        (["What do you see?", "Who was Bach?", "Nice. Describe it, please."], False),
        (["What do you see?", "Who was Bach?", "What has changed?"], False),
        (["What do you see?", "Who was Bach?", "How tall is it?", "Is it red?"], False),
        # Its name, or the picture itself, needs no subject.
        (["What do you see?", "Who was Bach?", "What colour is the cat?"], True),
        (["What do you see?", "Who was Bach?", "What is in that picture?"], True),
        (["What do you see?", "Who was Bach?", "It is late. Is there a dog?"], True),
        (["What do you see?", "Who was Bach?", "What does that sign say?"], True),
        # The picture is the subject again, or still.
        (["What do you see?", "Who was Bach?", "What do you see?", "Is it red?"], True),
        (["What do you see?", "Is it brown?", "Thanks.", "Is it old?"], True),
        (["What do you see?", "Are you sure?", "", "Is it old?"], True),
        (["", "Is it old?"], True),
    ],
)
def test_it_is_a_picture_only_while_that_is_the_subject(said: list[str], *, expected: bool) -> None:
    assert may_be_meant(Scene((Thing("cat"),)), said) == expected


PURE = {
    "black": (0, 0, 0), "grey": (128, 128, 128), "white": (255, 255, 255), "red": (220, 20, 20),
    "orange": (255, 140, 0), "brown": (110, 65, 25), "yellow": (250, 220, 20), "green": (20, 150, 40),
    "turquoise": (30, 200, 190), "blue": (30, 60, 200), "purple": (130, 40, 180), "pink": (255, 150, 190),
}  # fmt: skip


@pytest.mark.parametrize("name", COLOURS)
def test_colours_have_their_names(name: str) -> None:
    picture = Image.new("RGB", (100, 100), PURE[name])
    seen = colours_of(picture)
    assert (seen.ground, seen.subject, seen.flat, seen.drawn) == (name, "", True, True)
    assert seen.dark == (name == "black")
    assert colour_of(picture, Box(0.2, 0.2, 0.8, 0.8)) == name


def test_a_colour_on_a_ground() -> None:
    picture = Image.new("RGB", (100, 100), "white")
    picture.paste((220, 20, 20), (30, 30, 70, 70))
    seen = colours_of(picture)
    assert (seen.ground, seen.subject) == ("white", "red")
    assert colour_of(picture, Box(0.3, 0.3, 0.7, 0.7)) == "red"
    assert colour_of(picture, Box(0.5, 0.5, 0.5, 0.5)) == ""
    noise = np.random.default_rng(0).integers(0, 255, (100, 100, 3), dtype=np.uint8)
    mixed = colours_of(Image.fromarray(noise))
    assert not mixed.flat
    assert not mixed.drawn


def test_areas_of_text_are_separate_and_grown() -> None:
    found = np.zeros((100, 200), dtype=np.float32)
    found[20:30, 10:60] = 0.9
    found[60:80, 100:180] = 0.9
    found[70:90, 20:30] = 0.4  # never certain
    found[5:6, 5:6] = 0.9  # too small
    first, second = sorted(text_areas(found))
    assert first.top < 20 < 30 < first.bottom
    assert second.left < 100 < 180 < second.right
    assert first.bottom <= second.top


def test_a_branched_area_is_one() -> None:
    found = np.zeros((40, 40), dtype=np.float32)
    found[5:35, 5:8] = found[5:35, 30:33] = found[32:35, 5:33] = 1.0  # a U
    found[10:15, 15:20] = 1.0  # inside, but not connected
    assert len(text_areas(np.where(found > 0, found, 0.0).astype(np.float32))) in (1, 2)
    checkered = (np.indices((400, 400)).sum(0) % 2).astype(np.float32)
    assert text_areas(checkered) == []  # too many to be text


def test_lines_are_read_from_left_to_right() -> None:
    words = [Area(10, 100, 30, 150), Area(50, 0, 70, 90), Area(12, 0, 32, 80)]
    assert lines_of(words) == [[words[2], words[0]], [words[1]]]
