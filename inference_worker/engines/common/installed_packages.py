"""Finds packages that are installed for their files, such as weights. No code of theirs is imported."""

import importlib.util
from pathlib import Path


def package_folders(name: str) -> list[Path]:
    """The folders of the package, which is not imported. Empty if it is not installed."""
    spec = importlib.util.find_spec(name)
    return [Path(folder) for folder in spec.submodule_search_locations or ()] if spec else []
