"""Offers of calls, and the answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.edge.webrtc.sdp import Local, read_offer, write_answer
from antiphon.shared_schemas.errors import InvalidInput
from support.sdp_offers import AUDIO, CHANNEL, OFFER, SESSION, VIDEO

LOCAL = Local([("192.0.2.1", 40001)], "mine", "my-password", [("sha-256", "AB:CD")], 7)


def sections(answer: str) -> list[list[str]]:
    return [part.splitlines() for part in answer.split("\r\nm=")]


def test_an_offer_of_a_browser_is_answered() -> None:
    offer = read_offer(OFFER.replace("\n", "\r\n"))
    assert (offer.payload_type, offer.username, offer.message_bytes) == (111, "abcd", 262_144)
    common, audio, channel = sections(write_answer(offer, LOCAL))
    assert "a=group:BUNDLE 0 1" in common
    assert "a=setup:active" in common
    assert audio[0] == "audio 40001 UDP/TLS/RTP/SAVPF 111"
    assert "a=sendrecv" in audio
    assert "a=candidate:1 1 udp 2130706430 192.0.2.1 40001 typ host" in audio
    assert "a=ssrc:7 cname:antiphon" in audio
    assert channel[0] == "application 40001 UDP/DTLS/SCTP webrtc-datachannel"


@pytest.mark.parametrize(
    ("offered", "answered"),
    [("sendonly", "recvonly"), ("recvonly", "sendonly"), ("inactive", "inactive")],
)
def test_the_direction_is_reversed(offered: str, answered: str) -> None:
    offer = read_offer(OFFER.replace("a=sendrecv", f"a={offered}"))
    _, audio, _ = sections(write_answer(offer, LOCAL))
    assert f"a={answered}" in audio
    assert offer.hears is (offered == "recvonly")


@pytest.mark.parametrize(("bundled", "port"), [("0 1 2", "9"), ("0 1", "0")])
def test_video_is_inactive(bundled: str, port: str) -> None:
    text = OFFER.replace("BUNDLE 0 1", f"BUNDLE {bundled}") + VIDEO
    common, _, _, video = sections(write_answer(read_offer(text), LOCAL))
    assert video[0].startswith(f"video {port} ")
    assert "a=inactive" in video
    assert f"a=group:BUNDLE {bundled}" in common


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no session description"),
        ("hello", "no session description"),
        ("v=0\r\nm=\r\n", "cannot be read"),
        (SESSION, "no sound track"),
        (SESSION + CHANNEL, "no sound track"),
        (SESSION + AUDIO.replace("audio 9", "audio 0") + CHANNEL, "no sound track"),
        (SESSION + AUDIO, "oai-events"),
        (SESSION + AUDIO + CHANNEL.replace("DTLS/SCTP", "TLS"), "protocol"),
        (OFFER.replace("BUNDLE 0 1", "BUNDLE 0"), "BUNDLE"),
        (OFFER.replace("BUNDLE 0 1", ""), "BUNDLE"),
        (OFFER.replace("AVPF 111 0", "AVPF ²"), "cannot be read"),
        (OFFER.replace("a=rtcp-mux\n", ""), "rtcp-mux"),
        (OFFER.replace("a=setup:actpass", "a=setup:active"), "actpass"),
        (OFFER.replace("a=ice-ufrag:abcd\n", ""), "ice-ufrag"),
        (OFFER.replace("a=ice-pwd:abc", "a=ice-pwd: "), "ice-pwd"),
        (OFFER.replace("sha-256", "md5"), "fingerprint"),
        (OFFER.replace("opus/48000/2", "opus/8000"), "opus"),
        (OFFER.replace("AVPF 111 0", "AVPF 0"), "opus"),
        (OFFER.replace("a=mid:1", "a=mid:0"), "a=mid"),
        (OFFER.replace("sctp-port:5000", "sctp-port:99999"), "sctp-port"),
        (OFFER.replace("max-message-size:262144", "max-message-size:-1"), "max-message-size"),
        (OFFER.replace("a=setup:actpass", "a=setup:actpass\na=ice-lite"), "ice-lite"),
        (SESSION + "".join(AUDIO.replace("mid:0", f"mid:{n}") for n in range(17)), "limit is 16"),
        (SESSION + 17 * AUDIO + "m=unread\n", "limit is 16"),
    ],
)
def test_what_is_missing_is_named(text: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says) as refused:
        read_offer(text)
    assert refused.value.field == "sdp"


@given(st.data())
def test_changed_offers_are_read_or_refused(data: st.DataObject) -> None:
    lines = OFFER.splitlines()
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(lines) - 1))
        lines[at] = lines[at][: data.draw(st.integers(0, 12))] + data.draw(st.text(max_size=12))
    try:
        offer = read_offer("\n".join(lines))
    except InvalidInput:
        return
    answer = write_answer(offer, LOCAL)
    assert answer.count("\r\nm=") == len(offer.sections)
