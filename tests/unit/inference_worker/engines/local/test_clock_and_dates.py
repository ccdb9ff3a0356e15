"""Answers about dates and times, on days when a careless calculation gives another one."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from antiphon.inference_worker.engines.local.rules.clock import answer_clock
from antiphon.inference_worker.engines.local.rules.dates import answer_date

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
    answer = answer_date(f"how many days {asked}", NOVEMBER)
    assert answer == (expected and f"There are {expected}.")


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
