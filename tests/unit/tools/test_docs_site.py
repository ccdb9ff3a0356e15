"""The website of the documentation: `make docs` builds it; these checks need no mkdocs."""

import re
from pathlib import Path

import pytest

import docs_site

ROOT = Path(__file__).parents[3]
PLACES = docs_site.published()
PAGES = sorted(target for source, target in PLACES.items() if source.endswith(".md"))
NAVIGATION = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2].partition("\nnot_in_nav")[0]


def test_every_page_is_in_the_navigation_once() -> None:
    listed = sorted(re.findall(r"[\w./-]+\.md", NAVIGATION))
    decisions = re.compile(r"^decisions/\d")
    assert listed == [page for page in PAGES if not decisions.match(page)]


def test_every_decision_is_listed() -> None:
    listed = (ROOT / "docs" / "decisions" / "README.md").read_text()
    for path in (ROOT / "docs" / "decisions").glob("0*.md"):
        assert f"]({path.name})" in listed


@pytest.mark.parametrize("source", [name for name in PLACES if name.endswith(".md")])
def test_links_lead_to_pages_of_the_website(source: str) -> None:
    page = PLACES[source]
    text = docs_site.with_links((ROOT / source).read_text(), source, PLACES)
    for _, linked in docs_site.LINK.findall(text):
        if not re.match(r"\w+:", linked):
            there = (Path("/") / page).parent / linked
            assert there.resolve().relative_to("/").as_posix() in PLACES.values(), linked


def test_links_are_adapted_to_the_folders_of_the_website() -> None:
    readme = (
        "[a](docs/security.md#keys) [b](LICENSE) [c](examples/README.md) [d](https://x.org/a.md)"
    )
    adapted = "[a](security.md#keys) [b](LICENSE) [c](examples/index.md) [d](https://x.org/a.md)"
    assert docs_site.with_links(readme, "README.md", PLACES) == adapted
    assert (
        docs_site.with_links("[](../SECURITY.md)", "docs/security.md", PLACES) == "[](SECURITY.md)"
    )


def test_no_page_loads_anything_from_other_hosts() -> None:
    assert "font: false" in (ROOT / "mkdocs.yml").read_text()
    for source in PLACES:
        if source.endswith(".md"):
            text = docs_site.with_pictures((ROOT / source).read_text())
            assert not re.search(r"!\[[^\]]*\]\(\w+:|src=\"\w+:|```mermaid", text), source


def test_only_the_page_of_the_picture_has_a_diagram() -> None:
    sources = [name for name in PLACES if name.endswith(".md")]
    found = [name for name in sources if docs_site.DIAGRAM.search((ROOT / name).read_text())]
    assert found == ["docs/architecture.md"]


def programs(path: Path) -> set[str]:
    return set(
        re.findall(r"^```(?:python|js)\n.*?^```", path.read_text(), re.DOTALL | re.MULTILINE)
    )


@pytest.mark.parametrize("name", ["README", *(p.stem for p in (ROOT / "docs/zh").glob("*.md"))])
def test_programs_in_chinese_documents_are_those_of_the_english_ones(name: str) -> None:
    """The English ones are run."""
    english = ROOT / "README.md" if name == "README" else ROOT / "docs" / f"{name}.md"
    chinese = ROOT / "README.zh.md" if name == "README" else ROOT / "docs" / "zh" / f"{name}.md"
    assert programs(chinese) <= programs(english)
