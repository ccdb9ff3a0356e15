"""Cycles in a graph of imports."""

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter


def cycles(uses: Mapping[str, set[str]]) -> list[list[str]]:
    """One cycle, sorted by name, for each group of names that import each other."""
    remaining = {name: set(targets) for name, targets in uses.items()}
    found: list[list[str]] = []
    while True:
        try:
            TopologicalSorter(remaining).prepare()
        except CycleError as error:
            cycle = sorted(set(error.args[1]))
            found.append(cycle)
            for name in cycle:
                remaining.pop(name)
            for targets in remaining.values():
                targets.difference_update(cycle)
        else:
            return found
