"""The report of `antiphon evaluate`: JSON, tables and the page."""

import base64
import io
import re
from pathlib import Path

import av
import numpy as np
import orjson

from antiphon.cli.evaluate.call import Punctuality
from antiphon.cli.evaluate.metrics import MEASURES
from antiphon.cli.evaluate.page import page
from antiphon.cli.evaluate.report import ANCHORED, ANCHORS, Report, markdown, worst
from antiphon.cli.evaluate.run import Evaluation
from antiphon.cli.evaluate.tracks import Case, Kind, ModelTurn, Span, UserTurn
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, Samples

BEGIN = 2.0


def sine(hz: float, rate: int, seconds: float) -> Samples:
    since = np.arange(round(rate * seconds)) / rate
    return (0.3 * np.sin(2 * np.pi * hz * since) * (since > BEGIN)).astype(np.float32)


def case(text: str, seconds: float, answered: bool) -> Case:
    """The user sounds at 400 Hz, the model at 1000 Hz."""
    return Case(
        kind=Kind.QUESTION,
        text=text,
        voice="heart",
        user=sine(400, INPUT_RATE, seconds),
        model=sine(1000, OUTPUT_RATE, seconds) * np.float32(answered),
        turns=(UserTurn(kind=Kind.QUESTION, span=Span(0.5, 1.5)),),
        answers=(ModelTurn(span=Span(BEGIN, seconds), pieces=((BEGIN, "It is Rome."),)),)
        if answered
        else (),
    )


def report(**evaluation: object) -> Report:
    cases = [case("good", 6.0, answered=True), case("<b>bad</b>", 5.0, answered=False)]
    return Report.of(
        Evaluation(cases=cases, chunk_s=0.2, **evaluation),  # type: ignore[arg-type]
        {"url": "ws://edge", "engine": None},
    )


def test_the_json_has_measures_and_cases() -> None:
    document = orjson.loads(orjson.dumps(report().as_json()))
    assert document["chunk_ms"] == 200
    assert document["measures"]["r_r"]["value"] == 0.5
    assert document["measures"]["l_r"] == {
        "label": "L_R",
        "n": 1,
        **dict.fromkeys(("value", "low", "high"), document["measures"]["l_r"]["value"]),
    }
    good, bad = document["cases"]
    assert good["answers"] == [{"text": "It is Rome.", "span": [2, 6], "ended": True, "cut": False}]
    assert good["faults"] == []
    assert bad["faults"] == ["is not answered"]


def test_the_tables_for_documents_have_all_measures_and_all_published_systems() -> None:
    text = markdown(report())
    assert "| L_R | 0.50 s | 0.50 s to 0.50 s | 1 | low |" in text
    assert "| this run | 0.50 |" in text
    assert all(f"| {system} | " in text for system in ANCHORS)
    assert {len(values) for values in ANCHORS.values()} == {len(ANCHORED)}
    assert len({line.count("|") for line in text.split("\n\n")[0].splitlines()}) == 1


def test_the_document_has_the_published_systems_as_the_command_prints_them() -> None:
    document = (Path(__file__).parents[4] / "docs" / "interaction.md").read_text()
    for line in markdown(report()).splitlines():
        if any(line.startswith(f"| {system} |") for system in ANCHORS):
            assert line in document


def test_every_measure_is_defined_in_the_document() -> None:
    document = (Path(__file__).parents[4] / "docs" / "interaction.md").read_text()
    names = {re.split(",| (?=in|after)", measure.label)[0] for measure in MEASURES.values()}
    assert {name for name in names if f"| {name}" not in document} == {"any sound"}


def test_the_page_has_both_tracks_of_failed_cases_and_needs_no_other_file() -> None:
    html = page(report())
    [sound] = re.findall(r'src="data:audio/mpeg;base64,([^"]+)"', html)
    with av.open(io.BytesIO(base64.b64decode(sound))) as file:
        frames = [frame.to_ndarray() for frame in file.decode(audio=0)]
    left, right = np.concatenate(frames, axis=1)[:2]
    assert abs(len(left) / OUTPUT_RATE - 5.0) < 0.2
    tone = np.argmax(np.abs(np.fft.rfft(left))) * OUTPUT_RATE / len(left)
    assert abs(tone - 400) < 2
    assert np.abs(right).max() < 0.01
    assert "&lt;b&gt;bad&lt;/b&gt;" in html
    assert "<b>bad" not in html
    assert not re.search(r"https?://", html)


def test_the_worst_case_is_first() -> None:
    assert [one.case.text for one in worst(report(), 1)] == ["<b>bad</b>"]


def test_what_makes_the_figures_doubtful_is_said() -> None:
    assert report().warnings == []
    late = Punctuality(sent=100, sent_late=0, results=100, results_late=5)
    [text] = report(punctuality=late).warnings
    assert "5 of 100 results" in text
    [text] = report(simulated=True).warnings
    assert "simulated" in text
