"""How the engine takes turns: the cases of `antiphon evaluate` in the time of the audio.

The limits are below what was measured, so that a change of a word does not fail: a worse rule does.
"""

from collections.abc import Iterator

import pytest

from antiphon.cli.evaluate.plan import calls, scripts
from antiphon.cli.evaluate.report import Report
from antiphon.cli.evaluate.run import evaluate
from antiphon.cli.evaluate.tracks import Kind
from antiphon.inference_worker.engines.local.options import LocalOptions
from antiphon.inference_worker.engines.local.processor import LocalProcessor
from antiphon.inference_worker.engines.local.voices.catalogue import ESPEAK
from support.stream_call import StreamLine, run_in_stream_time

pytestmark = pytest.mark.extended

CASES = 2

AT_LEAST = {
    **dict.fromkeys(("r_r", "r_r_white", "r_r_pink", "r_r_babble"), 0.9),
    **dict.fromkeys(("r_y", "tor_turn", "tor_interruption"), 0.9),
    **dict.fromkeys(("s_bc", "survived", "s_nd"), 0.9),
    "s_vt": 0.5,
}
AT_MOST = {"l_r": 1.0, "l_y": 0.9, "spill": 0.7, "i_a": 0.2, "tor_pause": 0.4, "starts": 0.0}
"""Seconds are those of the audio: the engine computes in no time."""


@pytest.fixture(scope="module")
def talkative_engine() -> Iterator[LocalProcessor]:
    """With answers that last long enough for something to happen in them."""
    engine = LocalProcessor(LocalOptions(slots=1, context_tokens=1024, voice=ESPEAK))
    engine.load(lambda _: None)
    yield engine
    engine.close()


def test_it_answers_yields_waits_and_ignores(talkative_engine: LocalProcessor) -> None:
    kinds = [kind for kind in Kind if kind is not Kind.HALF_DUPLEX]
    planned = calls(scripts(CASES, kinds))
    line = StreamLine(talkative_engine.set_duplex_mode, chunk_ms=200)
    report = Report.of(run_in_stream_time(evaluate(line, planned, 1)), {})
    found = {name: estimate.value for name, estimate in report.estimates.items()}
    faults = [(one.case.kind, one.case.text, one.faults) for one in report.failed]
    assert not [name for name, limit in AT_LEAST.items() if found[name] < limit], (found, faults)
    assert not [name for name, limit in AT_MOST.items() if found[name] > limit], (found, faults)
    assert {"s_nd_speaking", "s_nd_silent"} <= set(found)
