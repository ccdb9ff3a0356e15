"""The documents: links have targets, files, settings and tests that they name exist."""

import json
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENGINES = ROOT.glob("inference_worker/engines/*/README.md")
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ENGINES])
SETTINGS = (ROOT / "docs" / "configuration.md").read_text().upper()
COMPOSE = (ROOT / "docker-compose.yml").read_text()
ELSEWHERE = {
    *("ANTIPHON_API_KEY", "ANTIPHON_URL", "ANTIPHON_EDGE", "ANTIPHON_WITHOUT_PAGES"),
    *("ANTIPHON_CHROMIUM", "ANTIPHON_TEST_ENGINE", "ANTIPHON_TEST_REDIS_SERVER"),
}
"""Read by the command line, by builds and by tests."""


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def anchors(path: Path) -> set[str]:
    """The anchors that GitHub makes of headings."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=named)
def test_links_have_targets(path: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        if re.match(r"\w+:", target):
            continue
        file, _, anchor = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        assert there.exists(), target
        if anchor and there.suffix == ".md":
            assert anchor in anchors(there), target


TOP_LEVEL = {path.name for path in ROOT.iterdir() if path.is_dir()}


@pytest.mark.parametrize("path", DOCUMENTS, ids=named)
def test_named_files_exist(path: Path) -> None:
    names = set(re.findall(r"`([a-z_]+/[\w/.-]+\.(?:py|lua|ts|yml|json|sh))`", path.read_text()))
    named_from_root = {name for name in names if name.split("/")[0] in TOP_LEVEL}
    assert {name for name in named_from_root if not (ROOT / name).exists()} == set()


@pytest.mark.parametrize("path", DOCUMENTS, ids=named)
def test_named_settings_exist(path: Path) -> None:
    for name in set(re.findall(r"\bANTIPHON_[A-Z0-9_]+[A-Z0-9]\b", path.read_text())) - ELSEWHERE:
        known = re.search(rf"\b{name}\b|`{name.removeprefix('ANTIPHON_')}`", SETTINGS)
        assert known or f"${{{name}" in COMPOSE, name


FAULTS = range(1, 28)
TESTS = (ROOT / "tests" / "README.md").read_text()
FAULT_TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_f(\d+)_\w+)`")


def test_each_fault_has_a_promise_and_tests_that_exist() -> None:
    row = re.compile(r"^\| F(\d+) \| (.*) \|$", re.MULTILINE)
    promises, rows = row.findall((ROOT / "docs" / "reliability.md").read_text()), row.findall(TESTS)
    assert [int(number) for number, _ in promises] == [*FAULTS]
    assert [int(number) for number, _ in rows] == [*FAULTS]
    for number, tests in rows:
        found = FAULT_TEST.findall(tests)
        assert found, f"F{number} names no test"
        for file, test, fault in found:
            assert fault == number, test
            assert f"def {test}(" in (ROOT / file).read_text(), test


def threats(page: str) -> list[str]:
    model = page.partition("## Threat model")[2].partition("\n## ")[0]
    return [line for line in model.splitlines() if line.startswith("| ") and "---" not in line]


def test_each_attacker_of_the_threat_model_has_tests_that_exist() -> None:
    attackers, rows = threats((ROOT / "docs" / "security.md").read_text()), threats(TESTS)
    assert len(rows) > 10
    assert [row.split(" | ")[0] for row in attackers] == [row.split(" | ")[0] for row in rows]
    for row in rows[1:]:
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row)
        assert named, row
        for file, test in named:
            assert f"def {test}(" in (ROOT / file).read_text(), test


def test_the_notice_names_every_package_that_is_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    needed = [*project["dependencies"], *extras["local"], *extras["minicpmo"]]
    names = {re.split(r"[=<>\[]", need)[0] for need in needed}
    notice = (ROOT / "NOTICE.md").read_text()
    packages = json.loads((ROOT / "web" / "package.json").read_text())["dependencies"]
    names |= {name.split("/")[-1].removesuffix("-dist").replace("-", " ") for name in packages}
    assert {name for name in names if not re.search(rf"\b{name}\b", notice, re.IGNORECASE)} == set()


@pytest.mark.parametrize("page", ["README", "docs/quick-start"])
def test_the_chinese_page_has_the_commands_of_the_english_one(page: str) -> None:
    english = (ROOT / f"{page}.md").read_text()
    chinese = (
        ROOT / (f"{page}.zh.md" if page == "README" else page.replace("/", "/zh/") + ".md")
    ).read_text()
    ours, theirs = (
        {
            line.split(" #")[0].rstrip()
            for line in re.findall(r"^    (?=\S)(.+)", text, re.MULTILINE)
        }
        for text in (chinese, english)
    )
    assert ours <= theirs
    assert {line for line in theirs if "antiphon" in line} == {
        line for line in ours if "antiphon" in line
    }


def test_the_chinese_page_has_the_settings_of_compose_of_the_english_one() -> None:
    chinese, english = (
        [
            re.findall(r"`ANTIPHON_\w+`|`[./]\S+`|\d+", row)
            for row in re.findall(r"^\| `ANTIPHON_.+", path.read_text(), re.MULTILINE)
        ]
        for path in (ROOT / "docs" / "zh" / "deployment.md", ROOT / "docs" / "deployment.md")
    )
    assert chinese == english != []


FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
REMARK = re.compile(r" {2,}[(\uff08#].*$", re.MULTILINE)
"""A remark beside a line of an example: a comment, or in ASCII or full-width parentheses."""
FIGURES = re.compile(r"\d+(?:[.,]\d+)*")


def examples(page: str) -> list[str | list[str]]:
    """Fenced code without remarks. A formula (`text`) has words, so only its figures count."""
    return [
        FIGURES.findall(code) if language == "text" else REMARK.sub("", code)
        for language, code in FENCED.findall(page)
    ]


def commands(page: str) -> list[str]:
    """The lines of indented code, without remarks."""
    indented = re.findall(r"^ {4}.+", FENCED.sub("", page), re.MULTILINE)
    return [REMARK.sub("", line) for line in indented]


def contents(section: str) -> tuple[str, dict[str, int], set[str]]:
    """What a translation keeps: level of the heading, kinds of lines, inline code."""
    level = section.partition(" ")[0]
    starts = {start: section.count(f"\n{start}") for start in ("| ", "- ", "@@@")}
    code = {" ".join(it.split()) for it in re.findall("`([^`]+)`", section)}
    return level, starts, code


@pytest.mark.parametrize("page", ["deployment.md", "protocols.md"])
def test_the_shorter_chinese_page_shows_what_the_english_one_shows(page: str) -> None:
    english = (ROOT / "docs" / page).read_text()
    chinese = (ROOT / "docs" / "zh" / page).read_text()
    shown = examples(english)
    assert [it for it in examples(chinese) if it not in shown] == []
    assert set(commands(chinese)) <= set(commands(english))
    assert contents(FENCED.sub("", chinese))[2] <= contents(FENCED.sub("", english))[2]


def test_the_chinese_quick_start_has_the_sections_and_examples_of_the_english_one() -> None:
    english = (ROOT / "docs" / "quick-start.md").read_text()
    chinese = (ROOT / "docs" / "zh" / "quick-start.md").read_text()
    assert examples(chinese) == examples(english)
    assert commands(chinese) == commands(english)
    ours, theirs = (
        re.split(r"^(?=#)", FENCED.sub("@@@", page), flags=re.MULTILINE)[1:]
        for page in (chinese, english)
    )
    for our, their in zip(ours, theirs, strict=True):
        assert contents(our) == contents(their), their.partition("\n")[0]
