"""The Lua scripts: their declarations, and the keys that they may use."""

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import antiphon.broker
from antiphon.broker.keys import Keys
from antiphon.broker.scripts import LuaScript

FOLDER = Path(antiphon.broker.__file__).parent / "lua"
SCRIPTS: dict[str, LuaScript[..., object]] = {
    found.name: found
    for module in pkgutil.walk_packages(antiphon.broker.__path__, "antiphon.broker.")
    for found in vars(importlib.import_module(module.name)).values()
    if isinstance(found, LuaScript)
}
NAMES = sorted(name for name, script in SCRIPTS.items() if not script.on_stream)
STREAM_NAMES = sorted(set(SCRIPTS) - set(NAMES))
KEY_NAMES = ["queue", "leases", "workers", "edges", "events", "eta", "tickets", "reaper", "trials"]
KEYLESS = {"PUBSUB", "TIME"}


def code(name: str) -> str:
    return re.sub(r"--[^\n]*", "", (FOLDER / f"{name}.lua").read_text())


def calls(name: str) -> list[tuple[str, str]]:
    """(command, first argument) of every call that a script makes."""
    found = re.findall(
        r"redis\.p?call\('(\w+)'(?:,\s*'(?:GROUPS|CONSUMERS|DELCONSUMER)')?"
        r"(?:,\s*([\w.]+(?:\([^()]*\))?))?",
        code(name),
    )
    return [(command, key) for command, key in found]


def test_every_file_is_declared_and_every_declaration_has_a_file() -> None:
    assert len(NAMES) >= 20
    assert len(STREAM_NAMES) == 2
    assert sorted(path.stem for path in FOLDER.glob("*.lua")) == sorted(
        [*NAMES, *STREAM_NAMES, "prelude"]
    )


def test_the_prelude_names_the_keys_in_the_order_of_the_arguments() -> None:
    keys = Keys()
    assert [getattr(keys, name) for name in KEY_NAMES] == keys.script_keys()
    assert f"local {', '.join(KEY_NAMES)} = unpack(KEYS)" in code("prelude")
    assert "local control = ARGV[1]" in code("prelude")


@pytest.mark.parametrize("name", [*NAMES, "prelude"])
def test_a_script_uses_only_declared_keys_and_the_control_prefix(name: str) -> None:
    text = code(name)
    assert len(re.findall(r"redis\.p?call\(", text)) == len(calls(name))
    for key in re.findall(r"\bfields\(([\w.]+(?:\([^()]*\))?)", text):
        assert (
            key in KEY_NAMES or made_in(text, key) or key.startswith(("session_key", "worker_key"))
        )
    for command, key in calls(name):
        if command in KEYLESS:
            continue
        made = key in KEY_NAMES or re.fullmatch(r"(session|worker|recorded|shares?)_key\(.*\)", key)
        assert made or made_in(text, key), f"{name}: {command} on {key}"


def made_in(text: str, variable: str) -> bool:
    """True if a local variable only ever contains a key built from the control prefix, or KEYS."""
    values = re.findall(rf"local {variable} = ([^\n]+)", text)
    loops = re.findall(rf"for _, {variable} in ipairs\(\{{([^}}]*)\}}\)", text)
    built = all(re.match(r"(session|worker|recorded|shares?)_key\(", value) for value in values)
    listed = all(part.strip() in KEY_NAMES for loop in loops for part in loop.split(","))
    return bool(values or loops) and built and listed


@pytest.mark.parametrize("name", STREAM_NAMES)
def test_a_script_over_a_stream_uses_no_other_key(name: str) -> None:
    text = code(name)
    assert SCRIPTS[name].source.startswith("local stream = KEYS[1]\n")
    assert "KEYS" not in text
    found = re.findall(r"redis\.call\('\w+',\s*(?:'STREAM',\s*)?(\w+)", text)
    assert len(found) == text.count("redis.call(")
    assert set(found) == {"stream"}


@pytest.mark.parametrize("name", [*NAMES, *STREAM_NAMES])
def test_the_header_of_a_script_lists_the_declared_parameters(name: str) -> None:
    head = (FOLDER / f"{name}.lua").read_text().split("\nlocal ")[0]
    keys, arguments = re.search(
        r"^-- [^\n]+\n(?:.*?)(-- KEYS: stream\n)?-- ARGV:(.*?)\n-- Result: ", head, re.DOTALL
    ).groups()  # type: ignore[union-attr]
    listed = re.sub(r"\([^)]*\)|\n--", "", arguments)
    parameters = list(SCRIPTS[name].parameters)
    assert bool(keys) == SCRIPTS[name].on_stream
    assert [part.strip() for part in listed.split(",") if part.strip()] == (
        parameters[1:] if SCRIPTS[name].on_stream else parameters
    )


@pytest.mark.parametrize("name", [*NAMES, *STREAM_NAMES])
def test_a_script_uses_every_argument_by_its_name(name: str) -> None:
    text = code(name)
    assert [each for each in SCRIPTS[name].parameters if not re.search(rf"\b{each}\b", text)] == []
    assert not re.search(r"ARGV\[\d+\]", text)


@pytest.mark.parametrize("name", [*NAMES, *STREAM_NAMES])
def test_no_script_uses_a_host_clock_or_random_numbers(name: str) -> None:
    text = SCRIPTS[name].source
    for forbidden in ("os.time", "os.clock", "math.random", "SPOP", "SRANDMEMBER"):
        assert forbidden not in text
