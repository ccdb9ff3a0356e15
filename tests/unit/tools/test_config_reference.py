"""docs/configuration.md is what the settings classes say."""

import pytest

from config_reference import DOCUMENT, SETTINGS, descriptions, own_fields, reference

FIELDS = [(cls, name) for _, cls in SETTINGS for name, _ in own_fields(cls)]


def test_the_document_is_up_to_date() -> None:
    assert DOCUMENT.read_text() == reference(), "run: python tools/config_reference.py"


@pytest.mark.parametrize(
    ("name", "description"),
    [(f"{cls.__name__}.{name}", descriptions(cls).get(name)) for cls, name in FIELDS],
)
def test_every_setting_has_a_description(name: str, description: str | None) -> None:
    assert description, name


@pytest.mark.parametrize(
    "row",
    [
        "| `ANTIPHON_PORT` | `8006` | 0 picks a free port; 0–65535 |",
        "| `ANTIPHON_ADMIN_TOKEN` |  | gives access to the admin routes and to everything else; secret |",
        "| `ANTIPHON_DEFAULT_LANG` |  | language of the pages; default: the browser's; "
        "one of `en`, `zh` |",
        "| `ANTIPHON_ASSETS_DIR` | `edge/assets` | folder with ref_audio/*.wav and presets/*/*.yaml |",
    ],
)
def test_rows_carry_default_and_limits(row: str) -> None:
    assert row in reference()


def test_a_setting_is_listed_where_it_is_declared_only() -> None:
    assert reference().count("`ANTIPHON_REDIS_URL`") == 1
