"""The histogram of the data path."""

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import (
    CollectorRegistry,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from antiphon.broker.service.metrics import MILLISECONDS, HopHistogram


@given(
    values=st.lists(st.floats(0.0, 10.0) | st.sampled_from(MILLISECONDS), max_size=30),
    more=st.lists(st.floats(0.0, 10.0), max_size=3),
)
def test_a_histogram_of_hops_exports_what_the_librarys_does(
    values: list[float], more: list[float]
) -> None:
    disable_created_metrics()  # type: ignore[no-untyped-call]  # as `new_registry` does
    exported = []
    for ours in (False, True):
        registry = CollectorRegistry(auto_describe=True)
        family: Histogram | HopHistogram = (
            HopHistogram("hop_seconds", "Hops.", "hop", registry)
            if ours
            else Histogram("hop_seconds", "Hops.", ["hop"], buckets=MILLISECONDS, registry=registry)
        )
        hop = family.labels("parse")
        family.labels("send")
        for value in values:
            hop.observe(value)
        texts = [generate_latest(registry)]
        for value in more:
            hop.observe(value)
        exported.append([*texts, generate_latest(registry)])
    assert exported[0] == exported[1]
