"""The shell commands in the documents, and what can be checked of those that are not run."""

import json
import re
import shlex
import tomllib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import typer.main
import yaml

from antiphon.cli.main import LazyCommand, app

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *ROOT.glob("inference_worker/engines/*/README.md"),
        ROOT / "examples/README.md",
    ]
)
CLI = typer.main.get_command(app)
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
VARIABLES = set(re.findall(r"^([A-Z]+) \?=", MAKEFILE, re.MULTILINE))
SCRIPTS = json.loads((ROOT / "web" / "package.json").read_text())["scripts"]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

_ASSIGNMENT = re.compile(r"\w+=")
_SHELL = re.compile(r"[|&;<>()`$]")
_FENCE = re.compile(r"^(```+)(\w*)")
SHELLS = ("sh", "bash", "console")


@dataclass(frozen=True)
class Command:
    """One line of a document, as it is printed, without its comment."""

    text: str
    document: str

    @property
    def is_simple(self) -> bool:
        """True if no shell is needed."""
        return not _SHELL.search(self.text)

    @property
    def words(self) -> list[str]:
        """The program, without its folder, and its arguments."""
        words = shlex.split(self.text.lstrip("(") if not self.is_simple else self.text)
        while words and _ASSIGNMENT.match(words[0]):
            words.pop(0)
        return [words[0].rpartition("/")[2], *words[1:]] if words else []

    @property
    def environment(self) -> dict[str, str]:
        """The assignments before the program."""
        found = {}
        for word in shlex.split(self.text):
            if not _ASSIGNMENT.match(word):
                break
            name, _, value = word.partition("=")
            found[name] = value
        return found


def commands() -> list[Command]:
    """Every line of an indented block, and of a fenced block for a shell; each text once."""
    found: dict[str, Command] = {}
    for path in DOCUMENTS:
        name = path.relative_to(ROOT).as_posix()
        for line in _lines(path.read_text()):
            text = re.sub(r"(^|\s+)#\s.*$", "", line).strip().removeprefix("$ ")
            if text:
                found.setdefault(text, Command(text, name))
    return list(found.values())


def inline_commands(programs: Collection[str]) -> list[Command]:
    """The commands of these programs in the sentences of the documents; each text once.

    The changelog has those of older versions.
    """
    found: dict[str, Command] = {}
    for path in DOCUMENTS:
        if path.name != "CHANGELOG.md":
            prose = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
            for text in re.findall(r"`([^`\n|]+ [^`\n|]+)(?: \|[^`\n]*)?`", prose):
                command = Command(text, path.relative_to(ROOT).as_posix())
                if text.count("'") % 2 == 0 and command.words[:1] and command.words[0] in programs:
                    found.setdefault(text, command)
    return list(found.values())


def blocks() -> Iterator[tuple[str, str, str]]:
    """Document, language and text of every fenced block."""
    for path in DOCUMENTS:
        for fence in re.finditer(
            r"^```(\w*)\n(.*?)^```", path.read_text(), re.DOTALL | re.MULTILINE
        ):
            yield path.relative_to(ROOT).as_posix(), fence[1], fence[2]


def _lines(text: str) -> Iterator[str]:
    """A line that ends with a backslash continues on the next one."""
    language: str | None = None
    after_list = kept = ""
    for line in text.splitlines():
        if fence := _FENCE.match(line.removeprefix("> ")):
            language = None if language is not None else fence[2]
            continue
        if language is None:
            after_list = line if line.strip() and not line.startswith("    ") else after_list
            shown = line.removeprefix("> ").startswith("    ") and not _is_item(after_list)
        else:
            shown = language in SHELLS
        if shown:
            kept += line.removeprefix("> ").strip()
            if kept.endswith("\\"):
                kept = kept[:-1]
            else:
                yield kept
                kept = ""


def _is_item(line: str) -> bool:
    """Indented lines after an item of a list belong to the item."""
    return bool(re.match(r"\s*([-*]|\d+\.) ", line))


def check_antiphon(words: list[str]) -> None:
    """The command and its flags exist."""
    command: Any = CLI
    rest = words[1:]
    while rest and rest[0] in (known := getattr(command, "commands", {})):
        command = known[rest.pop(0)]
        command = command.loaded() if isinstance(command, LazyCommand) else command
    assert command is not CLI or words[1] == "COMMAND" or words[1].startswith("--"), words
    flags = {flag for option in command.params for flag in option.opts} | {"--help", "-h"}
    flags |= {"--install-completion"} if command is CLI else set()
    assert {word.partition("=")[0] for word in rest if word.startswith("-")} <= flags, words


def check_make(words: list[str]) -> None:
    """The targets, and the variables that the command sets, are in the Makefile."""
    for word in words[1:]:
        name, sets, _ = word.partition("=")
        assert name in (VARIABLES if sets else TARGETS), words


def check_npm(words: list[str]) -> None:
    script = words[2] if words[1] == "run" else words[1]
    assert script in SCRIPTS or script in ("ci", "install"), words


def check_python(words: list[str]) -> None:
    """The program or module, and the paths that it gets, exist in the repository."""
    if words[1] == "-m":
        module = words[2].replace(".", "/")
        places = [
            ROOT / "tests" / module / "__main__.py",
            ROOT / "tests" / f"{module}.py",
            ROOT / "tools" / f"{module}.py",
        ]
        assert words[2] in ("venv", "pip") or any(place.exists() for place in places), words
    else:
        source = (ROOT / words[1]).read_text()
        for word in words[2:]:
            flag = word.partition("=")[0]
            assert not flag.startswith("--") or f'"{flag}"' in source or words[1] in _PASS_ON, words


_PASS_ON = ("tools/uv_program.py",)
"""Scripts that give their arguments to another program."""


def check_files(words: list[str]) -> None:
    """Paths of the repository exist."""
    named = [word for word in words[1:] if word.partition("/")[0] in ("tests", "deploy", "bench")]
    assert [name for name in named if not (ROOT / name).exists()] == []


def check_packages(words: list[str]) -> None:
    """Files and extras exist."""
    for word in words:
        if extras := re.search(r"\[([\w,-]+)\]", word):
            assert set(extras[1].split(",")) <= set(EXTRAS), word
    for flag, value in pairwise(words):
        assert flag not in ("-c", "--constraint") or (ROOT / value).exists(), words
        assert flag != "--extra" or value in EXTRAS, words


_FLAGS_WITH_VALUE = {
    "--profile",
    "--scale",
    "--entrypoint",
    "--since",
    "-f",
    "--env-file",
    "--index",
}
_SERVICE_COMMANDS = ("up", "stop", "start", "restart", "build", "logs", "ps", "pull", "rm", "kill")


def check_docker(words: list[str]) -> None:
    """Services, profiles and commands of `antiphon` inside containers exist."""
    services = COMPOSE["services"]
    if words[1] != "compose":
        for word in words[2:]:
            if container := re.fullmatch(r"antiphon-([\w-]+)-\d+", word):
                assert container[1] in services, words
        return
    plain: list[str] = []
    rest = words[2:]
    while rest:
        word = rest.pop(0)
        if word in _FLAGS_WITH_VALUE:
            _check_flag(word, rest.pop(0), services)
        elif not word.startswith("-"):
            plain.append(word)
        if plain[:1] in (["exec"], ["run"]) and len(plain) == 2:
            assert plain[1] in services, words
            _check_inside(rest)
            return
    if plain[0] in _SERVICE_COMMANDS:
        assert set(plain[1:]) <= {*services, "SERVICE"}, words


def _check_flag(flag: str, value: str, services: dict[str, Any]) -> None:
    if flag == "--profile":
        assert value in {name for one in services.values() for name in one.get("profiles", ())}
    elif flag == "--scale":
        assert value.partition("=")[0] in services, value
    elif flag == "-f":
        assert (ROOT / value).exists(), value


def _check_inside(command: list[str]) -> None:
    """`antiphon` is the entry point of the image, and may be named too."""
    inner = shlex.split(command[2]) if command[:2] == ["sh", "-c"] else command
    if inner[:1] == ["antiphon"]:
        check_antiphon(inner)
    elif inner[:1] and inner[0] in CLI.commands:  # type: ignore[attr-defined]
        check_antiphon(["antiphon", *inner])
