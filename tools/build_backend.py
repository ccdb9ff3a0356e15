"""The build backend of the package: builds the pages, then calls setuptools.

A build that cannot build the pages fails, unless ANTIPHON_WITHOUT_PAGES=1 is set. An editable
installation builds no pages; `make web` does.
"""

import os
from collections.abc import Mapping
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

from nodejs import WHEEL_REQUIREMENT, NodeError, has_own_node
from web_pages import build_pages

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

_WITHOUT = "ANTIPHON_WITHOUT_PAGES"


def get_requires_for_build_wheel(config: Mapping[str, Any] | None = None) -> list[str]:
    """Adds Node.js if the machine has no suitable one."""
    own: list[str] = build_meta.get_requires_for_build_wheel(config)
    return own if _without_pages() or has_own_node() else [*own, WHEEL_REQUIREMENT]


def build_wheel(
    folder: str, config: Mapping[str, Any] | None = None, metadata: str | None = None
) -> str:
    if not _without_pages():
        try:
            build_pages()
        except NodeError as error:
            raise SystemExit(
                f"{error}\nTo install without pages: {_WITHOUT}=1 pip install ."
            ) from None
    wheel: str = build_meta.build_wheel(folder, config, metadata)
    return wheel


def _without_pages() -> bool:
    return os.environ.get(_WITHOUT, "") not in ("", "0")
