"""The budget that chat requests share."""

from __future__ import annotations

import pytest

from antiphon.edge.byte_budget import ByteBudget
from antiphon.edge.errors import BudgetExceeded

MIB = 1024 * 1024


def test_what_is_over_the_limit_is_refused_and_costs_nothing() -> None:
    budget = ByteBudget(10 * MIB)
    with budget.reserve() as one, budget.reserve() as other:
        one.add(6 * MIB)
        other.add(4 * MIB)
        with pytest.raises(BudgetExceeded, match="holds 10 MiB"):
            other.add(1)
        with budget.reserve() as small:
            small.add(MIB)
            with pytest.raises(BudgetExceeded):
                small.add(1)
        assert budget.held == 10 * MIB
    assert budget.held == 0


def test_pieces_count_like_a_whole() -> None:
    budget = ByteBudget(2 * MIB)
    with budget.reserve() as one, budget.reserve() as other:
        one.add(1)
        for _ in range(31):
            other.add(64 * 1024)
        with pytest.raises(BudgetExceeded):
            other.add(64 * 1024)


def test_one_alone_always_has_budget() -> None:
    budget = ByteBudget(1024)
    with budget.reserve() as one:
        one.add(MIB)
        one.add(MIB)
        with budget.reserve() as other, pytest.raises(BudgetExceeded):
            other.add(MIB + 1)
    assert budget.held == 0
