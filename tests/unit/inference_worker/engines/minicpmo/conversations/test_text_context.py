"""The sliding windows as plain bookkeeping: positions stay compact for any input."""

from hypothesis import given
from hypothesis import strategies as st

from antiphon.inference_worker.engines.minicpmo.config import EngineOptions
from antiphon.inference_worker.engines.minicpmo.conversations.text_context import (
    ContextLayout,
    ContextUnit,
)

UNITS = st.lists(
    st.builds(ContextUnit, st.integers(1, 40), st.lists(st.integers(0, 9), max_size=6).map(tuple)),
    max_size=30,
)


def layout_of(**settings: object) -> ContextLayout:
    options = EngineOptions.model_validate(settings)
    return ContextLayout(options, prefix=7, suffix=(1, 2), marker=(8, 9))


@given(UNITS)
def test_off_never_slides(units: list[ContextUnit]) -> None:
    layout = layout_of()
    assert all(layout.close(unit) is None for unit in units)
    assert layout.length == 9 + sum(unit.length for unit in units)


@given(UNITS)
def test_basic_stays_within_its_limits(units: list[ContextUnit]) -> None:
    layout = layout_of(window="basic", basic_high_tokens=90, basic_low_tokens=60)
    held = 9
    for unit in units:
        slide = layout.close(unit)
        held += unit.length
        assert (slide is not None) == (held > 90)
        if slide is not None:
            assert held == slide.source + slide.count
            assert slide.target == 9
            assert layout.length <= 60 or not layout.units
            held = layout.length
        assert layout.length == held


@given(UNITS)
def test_context_keeps_the_newest_words(units: list[ContextUnit]) -> None:
    layout = layout_of(window="context", context_max_units=3, context_previous_max_tokens=5)
    gone: list[int] = []
    for n, unit in enumerate(units):
        before = layout.length + unit.length
        slide = layout.close(unit)
        if slide is None:
            continue
        gone += units[n - 3].words
        words = tuple(gone[-5:])
        assert layout.previous == ((8, 9, *words) if words else ())
        assert slide.source + slide.count == before
        assert slide.target + slide.count == layout.length
        assert slide.refill in ((), (*layout.previous, 1, 2))
        assert len(layout.units) == 3
