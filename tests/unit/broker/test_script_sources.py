"""What the Lua scripts may touch, held by reading their text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import antiphon.broker
from antiphon.broker.keys import Keys
from antiphon.broker.scripts import NAMES, STREAM_NAMES, source

FOLDER = Path(antiphon.broker.__file__).parent / "lua"
KEY_NAMES = ["queue", "leases", "workers", "edges", "events", "eta", "tickets", "reaper"]
KEYLESS = {"TIME"}


def code(name: str) -> str:
    """A script without its comments."""
    return re.sub(r"--[^\n]*", "", (FOLDER / f"{name}.lua").read_text())


def calls(name: str) -> list[tuple[str, str]]:
    """(command, first argument) of every call that a script makes."""
    found = re.findall(
        r"redis\.call\('(\w+)'(?:,\s*'(?:GROUPS|CONSUMERS|DELCONSUMER)')?"
        r"(?:,\s*([\w.]+(?:\([^()]*\))?))?",
        code(name),
    )
    return [(command, key) for command, key in found]


def test_every_file_is_a_script_and_every_script_a_file() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.lua")) == sorted(
        [*NAMES, *STREAM_NAMES, "prelude"]
    )


def test_the_prelude_names_the_keys_in_the_order_they_are_sent() -> None:
    keys = Keys()
    assert [getattr(keys, name) for name in KEY_NAMES] == keys.script_keys()
    assert f"local {', '.join(KEY_NAMES)} = unpack(KEYS)" in code("prelude")
    assert "local control = ARGV[1]" in code("prelude")


@pytest.mark.parametrize("name", [*NAMES, "prelude"])
def test_a_script_touches_declared_keys_and_the_control_prefix_only(name: str) -> None:
    text = code(name)
    assert text.count("redis.call(") == len(calls(name))
    for command, key in calls(name):
        if command in KEYLESS:
            continue
        made = key in KEY_NAMES or re.fullmatch(r"(session|worker|shares?)_key\(.*\)", key)
        assert made or made_in(text, key), f"{name}: {command} on {key}"


def made_in(text: str, variable: str) -> bool:
    """True when a local variable only ever holds a key built from the control prefix, or KEYS."""
    values = re.findall(rf"local {variable} = ([^\n]+)", text)
    loops = re.findall(rf"for _, {variable} in ipairs\(\{{([^}}]*)\}}\)", text)
    built = all(re.match(r"(session|worker|shares?)_key\(", value) for value in values)
    listed = all(part.strip() in KEY_NAMES for loop in loops for part in loop.split(","))
    return bool(values or loops) and built and listed


@pytest.mark.parametrize("name", STREAM_NAMES)
def test_a_script_over_a_stream_touches_nothing_else(name: str) -> None:
    text = code(name)
    assert "local stream = KEYS[1]" in text
    assert text.count("KEYS") == 1
    found = re.findall(r"redis\.call\('\w+',\s*(?:'STREAM',\s*)?(\w+)", text)
    assert len(found) == text.count("redis.call(")
    assert set(found) == {"stream"}


@pytest.mark.parametrize("name", [*NAMES, *STREAM_NAMES])
def test_a_script_is_headed_by_what_it_takes_and_gives(name: str) -> None:
    head = (FOLDER / f"{name}.lua").read_text().split("\nlocal ")[0]
    assert head.startswith("-- ")
    assert ("-- ARGV: control" if name in NAMES else "-- KEYS: stream\n-- ARGV: ") in head
    assert "-- Result: " in head


@pytest.mark.parametrize("name", [*NAMES, *STREAM_NAMES])
def test_no_script_uses_a_host_clock_or_chance(name: str) -> None:
    text = source(name)
    for forbidden in ("os.time", "os.clock", "math.random", "SPOP", "SRANDMEMBER"):
        assert forbidden not in text
