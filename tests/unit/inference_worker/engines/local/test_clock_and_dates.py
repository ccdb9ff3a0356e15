"""Answers about dates and times, on days when a careless calculation gives another one."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from antiphon.inference_worker.engines.local.rules.answer import answer
from antiphon.inference_worker.engines.local.rules.quantities.clock import answer_clock
from antiphon.inference_worker.engines.local.rules.quantities.dates import answer_date
from antiphon.inference_worker.engines.local.rules.situation import Situation
from antiphon.inference_worker.engines.local.rules.text import plain

BERLIN = ZoneInfo("Europe/Berlin")
NEW_YORK = ZoneInfo("America/New_York")
NOVEMBER = datetime(2026, 11, 28, 14, 5, tzinfo=BERLIN)

TODAY = "Saturday, 28 November 2026"


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("between january 1 and today", f"331 days between Thursday, 1 January 2026, and {TODAY}"),
        ("from christmas to today", f"338 days between Thursday, 25 December 2025, and {TODAY}"),
        (
            "between christmas and yesterday",
            "337 days between Thursday, 25 December 2025, and Friday, 27 November 2026",
        ),
        (
            "between tomorrow and yesterday",
            "2 days between Sunday, 29 November 2026, and Friday, 27 November 2026",
        ),
        (
            "between next christmas and today",
            f"27 days between Friday, 25 December 2026, and {TODAY}",
        ),
        (
            "between christmas this year and today",
            f"27 days between Friday, 25 December 2026, and {TODAY}",
        ),
        ("between today and christmas", f"27 days between {TODAY}, and Friday, 25 December 2026"),
        (
            "between november 1 and december 1",
            "30 days between Monday, 1 November 2027, and Wednesday, 1 December 2027",
        ),
        (
            "between january 1 and 2026-03-01",
            "59 days between Thursday, 1 January 2026, and Sunday, 1 March 2026",
        ),
        (
            "between easter and christmas 2024",
            "269 days between Sunday, 31 March 2024, and Wednesday, 25 December 2024",
        ),
        (
            "between christmas 2027 and easter",
            "113 days between Saturday, 25 December 2027, and Sunday, 16 April 2028",
        ),
        ("between february 30 and today", None),
    ],
)
def test_days_between(asked: str, expected: str | None) -> None:
    said = answer_date(f"how many days {asked}", NOVEMBER)
    assert said == (expected and f"There are {expected}.")


@pytest.mark.parametrize(
    ("asked", "now", "expected"),
    [
        (
            "how many days between today and tomorrow",
            NOVEMBER,
            f"There is 1 day between {TODAY}, and Sunday, 29 November 2026.",
        ),
        (
            "how many days are left in this year",
            datetime(2026, 12, 30, 9, 0, tzinfo=BERLIN),
            "There is 1 day left in 2026.",
        ),
        (
            "how many days are left in this year",
            datetime(2026, 12, 31, 9, 0, tzinfo=BERLIN),
            "There are 0 days left in 2026.",
        ),
    ],
)
def test_one_day_is_singular(asked: str, now: datetime, expected: str) -> None:
    assert answer_date(asked, now) == expected


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("what day was july 4", "4 July 2026 was a Saturday."),
        ("what weekday was july 4", "4 July 2026 was a Saturday."),
        ("what day was it on july 4", "4 July 2026 was a Saturday."),
        ("what day did christmas fall on", "Christmas was Thursday, 25 December 2025."),
        ("what date was easter", "Easter was Sunday, 5 April 2026."),
        ("what day was july 4 2027", "4 July 2027 is a Sunday."),
        ("what day was february 29", "29 February 2024 was a Thursday."),
        ("what day is july 4", "4 July 2027 is a Sunday."),
        ("what day does christmas fall on", "Christmas is Friday, 25 December 2026."),
        ("what day will be july 31", "31 July 2026 is a Friday."),
    ],
)
def test_the_past_tense_asks_for_a_day_that_has_been(asked: str, expected: str) -> None:
    assert answer_date(asked, datetime(2026, 7, 30, 12, 0, tzinfo=BERLIN)) == expected


@pytest.mark.parametrize(
    ("now", "asked", "expected"),
    [
        (
            datetime(2026, 3, 29, 1, 30, tzinfo=BERLIN),
            "what time will it be in 1 hour",
            "In 1 hour it will be 3:30 AM.",
        ),
        (
            datetime(2026, 3, 29, 3, 30, tzinfo=BERLIN),
            "what time was it 1 hour ago",
            "1 hour ago it was 1:30 AM.",
        ),
        (
            datetime(2026, 3, 28, 22, 0, tzinfo=BERLIN),
            "how long until 6 am",
            "It is 7 hours until 6:00 AM.",
        ),
        (
            datetime(2026, 3, 29, 1, 0, tzinfo=BERLIN),
            "how long until 2:30 am",
            "It is 1 hour and 30 minutes until 3:30 AM.",
        ),
        (
            datetime(2026, 10, 24, 22, 0, tzinfo=BERLIN),
            "how long until 6 am",
            "It is 9 hours until 6:00 AM.",
        ),
        (
            datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN),
            "what time will it be in 1 hour",
            "In 1 hour it will be 2:30 AM.",
        ),
        (
            datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1),
            "what time will it be in 1 hour",
            "In 1 hour it will be 3:30 AM.",
        ),
        (
            datetime(2026, 11, 1, 0, 30, tzinfo=NEW_YORK),
            "how long until noon",
            "It is 12 hours and 30 minutes until noon.",
        ),
        (
            datetime(2026, 7, 1, 22, 0, tzinfo=BERLIN),
            "how long until 6",
            "It is 8 hours until 6:00 AM.",
        ),
    ],
)
def test_hours_across_a_change_of_the_clocks(now: datetime, asked: str, expected: str) -> None:
    assert answer_clock(asked, now) == expected


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("How long until quarter past four?", "It is 2 hours and 10 minutes until 4:15 PM."),
        ("How long until a quarter past four?", "It is 2 hours and 10 minutes until 4:15 PM."),
        ("How long is it till half past six?", "It is 4 hours and 25 minutes until 6:30 PM."),
        ("how many minutes until quarter to nine", "It is 6 hours and 40 minutes until 8:45 PM."),
        ("how long is it till ten to five", "It is 2 hours and 45 minutes until 4:50 PM."),
        ("how long until twenty past three", "It is 1 hour and 15 minutes until 3:20 PM."),
        ("how long have I got until five minutes to one",
         "It is 10 hours and 50 minutes until 12:55 AM."),
        ("how long until nine in the morning", "It is 18 hours and 55 minutes until 9:00 AM."),
        ("What time is half an hour after ten fifteen?", "It is 10:45."),
        ("What's half an hour after ten fifteen?", "It is 10:45."),
        ("what time is two hours after four fifteen", "It is 6:15."),
        ("What time is thirty minutes before six?", "It is 5:30."),
        ("what's an hour and a half after 11:45 am", "It is 1:15 PM."),
        ("what is 20 minutes before midnight", "It is 11:40 PM."),
        ("what time is 3 hours after half past eleven", "It is 2:30."),
        ("How many hours is it from ten pm to six am?", "It is 8 hours."),
        ("how many hours between nine am and five pm", "It is 8 hours."),
        ("how long is it from nine to five thirty", "It is 8 hours and 30 minutes."),
        ("How long is it from nine to half past five?", "It is 8 hours and 30 minutes."),
        ("how many hours do I work from nine to five", "It is 8 hours."),
        ("how many minutes are there between 1:50 and 3", "It is 70 minutes."),
        ("how long is it from ten to six", "It is 8 hours."),
        ("If the film starts at eight and lasts two hours, when does it end?", "That is at 10:00."),
        ("If I leave at four fifteen and it takes two and a half hours when do I arrive",
         "That is at 6:45."),
        ("It takes two hours and I leave at nine. When do I get there?", "That is at 11:00."),
        ("My train leaves at 11 pm and the journey takes 90 minutes, what time do I arrive?",
         "That is at 12:30 AM."),
        ("If it's three o'clock now, what time will it be in five hours?", "That is at 8:00."),
        ("if it is 1 pm what time was it two hours ago", "That is at 11:00 AM."),
    ],
)  # fmt: skip
def test_hours_in_everyday_words(asked: str, expected: str) -> None:
    assert answer(asked, Situation(NOVEMBER, "1")) == expected


@pytest.mark.parametrize(
    "asked",
    [
        "how long until half past",
        "what is a quarter to a dime",
        "how long until 30 to 5",
        "what time is 2 hours after 25",
        "how many hours are between us",
        "how long is it from 9 to 9",
        "from nine to five",
        "two hours after six he came",
        "the film starts at eight and lasts two hours",
        "if it starts at 27 and lasts 2 hours when does it end",
        "how long is the road from 5 to 70",
    ],
)
def test_what_is_no_question_about_hours(asked: str) -> None:
    assert answer_clock(plain(asked), NOVEMBER) is None


@pytest.mark.parametrize(
    ("previous", "asked", "expected"),
    [
        ("Easter is Sunday, 28 March 2027.", "Is that before or after the first of April?",
         "It is 4 days before the 1st of April 2027."),
        ("The day in 3 days is Tuesday, 1 December 2026.",
         "is that before or after the fifth of december",
         "It is 4 days before the 5th of December 2026."),
        ("Tomorrow is Sunday, 29 November 2026.", "Is that before or after Christmas?",
         "It is 26 days before Christmas."),
        ("Tomorrow is Sunday, 29 November 2026.", "And is it after Christmas?",
         "No, it is 26 days before Christmas."),
        ("Next Friday is Friday, 4 December 2026.", "Is that before the tenth of December?",
         "Yes, it is 6 days before the 10th of December 2026."),
        ("Christmas is Friday, 25 December 2026.", "Is it after the 26th of December?",
         "No, it is 1 day before the 26th of December 2026."),
        ("Christmas is Friday, 25 December 2026.", "Is that before Christmas?",
         "No, it is the same day."),
        ("I am glad.", "Is it before the tenth of December today?",
         "Yes, it is 12 days before the 10th of December 2026."),
        ("Easter is Sunday, 28 March 2027.", "Is today before the tenth of December?",
         "Yes, it is 12 days before the 10th of December 2026."),
        ("", "Is it after Thanksgiving yet?", "Yes, it is 2 days after Thanksgiving."),
        ("It is 25 days until Christmas.", "Is that more than three weeks?",
         "Yes, 25 days are more than 3 weeks."),
        ("It is 2 weeks and 3 days until Christmas.", "Is that more than two weeks?",
         "Yes, 2 weeks and 3 days are more than 2 weeks."),
        ("It is 25 days until Christmas.", "Is that less than a month?", None),
        ("5 miles are about 8.05 kilometres.", "Is that more or less than ten kilometres?",
         "8.05 kilometres are less than 10 kilometres."),
        ("1 stone is about 6.35 kilograms.", "is that more than six kilos",
         "Yes, 6.35 kilograms are more than 6 kilograms."),
        ("1 hour is 60 minutes.", "is that longer than an hour", "No, 60 minutes are equal to 1 hour."),
        ("20 degrees Celsius are 68 degrees Fahrenheit.", "is that more than 15 celsius",
         "Yes, 68 degrees Fahrenheit are more than 15 degrees Celsius."),
        # Not of dates and quantities
        ("I am glad.", "Is that before or after the first of April?", None),
        ("It is a thing.", "Is that before lunch?", None),
        ("It is 25 days until Christmas.", "Is that more than enough?", None),
        ("It is 25 days until Christmas.", "Is that more than three kilos?", None),
        ("It is about 30 years old.", "Is that more than a cup?", None),
    ],
)  # fmt: skip
def test_comparing_with_the_answer_before(previous: str, asked: str, expected: str | None) -> None:
    situation = Situation(NOVEMBER, "1", ("Hello.",), previous)
    assert answer(asked, situation) == expected


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("Is today a weekday or a weekend?", "Today is Saturday."),
        ("Is it Saturday today?", "Yes, today is Saturday."),
        ("Is it Monday?", "No, today is Saturday."),
        ("is today a weekday", "No, today is Saturday."),
        ("is it the weekend yet", "Yes, today is Saturday."),
        ("is tomorrow a monday", "No, tomorrow is Sunday."),
    ],
)
def test_the_kind_of_day(asked: str, expected: str) -> None:
    assert answer(asked, Situation(NOVEMBER, "1")) == expected
