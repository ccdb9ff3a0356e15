"""Reads the SDP offer of a call, and writes the answer. It is pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from antiphon.shared_schemas.errors import InvalidInput

MAX_SECTIONS = 16
"""Of one offer."""

MAX_MESSAGE_BYTES = 256 * 1024
"""The longest message that `aiortc` reassembles."""

_DEFAULT_MESSAGE_BYTES = 64 * 1024
"""What a client takes that names no limit."""

_MEDIA = re.compile(r"(\w+) (\d{1,5})(?:/\d+)? ([\w/]+) ([!-~]+(?: [!-~]+)*)")
_OPUS = re.compile(r"(\d{1,3}) opus/48000/2", re.IGNORECASE)
_ICE = {"ice-ufrag": re.compile(r"[\w+/]{4,256}"), "ice-pwd": re.compile(r"[\w+/]{22,256}")}
_MID = re.compile(r"[!-~]{1,64}")
_DIGEST = re.compile(r"([\w-]+) ((?:[0-9A-Fa-f]{2}:)+[0-9A-Fa-f]{2})")
_DIGESTS = ("sha-256", "sha-384", "sha-512")
_CODEC_LINES = ("rtpmap", "fmtp")

_ANSWERED = {"sendonly": "recvonly", "recvonly": "sendonly", "inactive": "inactive"}
"""The direction of the answer to one that is not `sendrecv`."""


@dataclass(slots=True)
class Section:
    """One m-line with its attributes, in order. Those of the session are in each."""

    kind: str
    port: int
    protocol: str
    formats: str
    attributes: list[tuple[str, str]] = field(default_factory=list)

    def get(self, name: str) -> str | None:
        """The last value: that of the section comes after that of the session."""
        return next((value for key, value in reversed(self.attributes) if key == name), None)

    @property
    def mid(self) -> str:
        return self.get("mid") or ""

    @property
    def direction(self) -> str:
        names = ("sendrecv", "sendonly", "recvonly", "inactive")
        return next((key for key, _ in reversed(self.attributes) if key in names), "sendrecv")


@dataclass(frozen=True, slots=True)
class Offer:
    """What a call needs of an offer. `fingerprints`: names of digests and values."""

    sections: Sequence[Section]
    audio: Section
    channel: Section
    payload_type: int
    username: str
    password: str = field(repr=False)
    fingerprints: Sequence[tuple[str, str]]
    sctp_port: int
    message_bytes: int

    @property
    def hears(self) -> bool:
        """The client plays what it is sent."""
        return self.audio.direction in ("sendrecv", "recvonly")


@dataclass(frozen=True, slots=True)
class Local:
    """What the answer says about this side. `addresses`: of the UDP sockets."""

    addresses: Sequence[tuple[str, int]]
    username: str
    password: str = field(repr=False)
    fingerprints: Sequence[tuple[str, str]]
    ssrc: int


def read_offer(text: str) -> Offer:
    """Raises InvalidInput, which names the remedy."""
    sections = _sections(text)
    audio = _only(sections, "audio", "sound track: add one to the connection before the offer")
    channel = _only(
        sections, "application", "data channel: create `oai-events` before the offer is made"
    )
    if channel.protocol not in ("UDP/DTLS/SCTP", "TCP/DTLS/SCTP"):
        raise _invalid(
            f"the data channel has the protocol {channel.protocol[:40]}, not UDP/DTLS/SCTP"
        )
    _check_bundle(sections, audio, channel)
    if audio.get("rtcp-mux") is None:
        raise _invalid("the sound track has no a=rtcp-mux")
    if audio.get("ice-lite") is not None:
        raise _invalid("a=ice-lite: the client must make the connectivity checks")
    if (audio.get("setup") or "actpass") not in ("actpass", "passive"):
        raise _invalid("a=setup must be actpass")
    codec = next((found for key, value in audio.attributes if (found := _opus(key, value))), None)
    if codec is None or codec not in map(int, filter(str.isdecimal, audio.formats.split())):
        raise _invalid("the sound track does not offer opus/48000/2")
    return Offer(
        sections=sections,
        audio=audio,
        channel=channel,
        payload_type=codec,
        username=_ice(audio, "ice-ufrag"),
        password=_ice(audio, "ice-pwd"),
        fingerprints=_fingerprints(audio),
        sctp_port=_number(channel, "sctp-port", 5000, 65535),
        message_bytes=_number(channel, "max-message-size", _DEFAULT_MESSAGE_BYTES, 1 << 40),
    )


def write_answer(offer: Offer, local: Local) -> str:
    """Every section of the offer in its order; those that are not used are inactive."""
    bundle = " ".join(section.mid for section in offer.sections if _is_bundled(offer, section))
    lines = [
        "v=0",
        "o=- 1 1 IN IP4 0.0.0.0",
        "s=-",
        "t=0 0",
        f"a=group:BUNDLE {bundle}",
        "a=msid-semantic: WMS *",
        f"a=ice-ufrag:{local.username}",
        f"a=ice-pwd:{local.password}",
        *(f"a=fingerprint:{name} {digest}" for name, digest in local.fingerprints),
        "a=setup:active",
    ]
    for section in offer.sections:
        lines += _answer_section(offer, local, section)
    return "\r\n".join(lines) + "\r\n"


def _answer_section(offer: Offer, local: Local, section: Section) -> list[str]:
    used = section in (offer.audio, offer.channel)
    port = local.addresses[0][1] if used else 9 if _is_bundled(offer, section) else 0
    formats = str(offer.payload_type) if section is offer.audio else section.formats
    lines = [
        f"m={section.kind} {port} {section.protocol} {formats}",
        "c=IN IP4 0.0.0.0",
        f"a=mid:{section.mid}",
    ]
    if section is offer.audio:
        return lines + _sound_lines(offer, local) + _candidates(local)
    if section is offer.channel:
        sctp = [f"a=sctp-port:{5000}", f"a=max-message-size:{MAX_MESSAGE_BYTES}"]
        return lines + sctp + _candidates(local)
    codecs = [f"a={key}:{value}" for key, value in section.attributes if key in _CODEC_LINES]
    return [*lines, "a=inactive", "a=rtcp-mux", *codecs]


def _sound_lines(offer: Offer, local: Local) -> list[str]:
    payload = offer.payload_type
    lines = [
        f"a={_ANSWERED.get(offer.audio.direction, 'sendrecv')}",
        "a=rtcp-mux",
        f"a=rtpmap:{payload} opus/48000/2",
        f"a=fmtp:{payload} minptime=10;useinbandfec=1",
    ]
    if offer.hears:
        lines += ["a=msid:antiphon voice", f"a=ssrc:{local.ssrc} cname:antiphon"]
    return lines


def _candidates(local: Local) -> list[str]:
    lines = [
        f"a=candidate:{number} 1 udp {2130706431 - number} {address} {port} typ host"
        for number, (address, port) in enumerate(local.addresses, 1)
    ]
    return [*lines, "a=end-of-candidates"]


def _is_bundled(offer: Offer, section: Section) -> bool:
    return section.mid in _bundle(offer.audio)


def _sections(text: str) -> list[Section]:
    if not text.startswith("v=0"):
        raise _invalid("this is no session description: it begins with v=0")
    common: list[tuple[str, str]] = []
    sections: list[Section] = []
    for line in text.splitlines():
        name, _, value = line.partition("=")
        if name == "m":
            found = _MEDIA.fullmatch(value.strip())
            if found is None:
                raise _invalid(f"a line cannot be read: {line[:60]!r}")
            kind, port, protocol, formats = found.groups()
            if len(sections) == MAX_SECTIONS:  # each has a copy of the session's attributes
                raise _invalid(f"too many m-lines, the limit is {MAX_SECTIONS}")
            sections.append(Section(kind, int(port), protocol, formats, list(common)))
        elif name == "a":
            key, _, argument = value.strip().partition(":")
            (sections[-1].attributes if sections else common).append((key, argument.strip()))
    mids = [section.mid for section in sections]
    if len({*mids}) < len(mids) or not all(map(_MID.fullmatch, mids)):
        raise _invalid("each m-line needs its own a=mid")
    return sections


def _only(sections: Sequence[Section], kind: str, what: str) -> Section:
    """The first that is not refused."""
    found = next((each for each in sections if each.kind == kind and each.port), None)
    if found is None:
        raise _invalid(f"the offer has no {what}")
    return found


def _bundle(section: Section) -> list[str]:
    """The sections that share one connection."""
    groups = [value.split() for key, value in section.attributes if key == "group"]
    return next((group[1:] for group in groups if group[:1] == ["BUNDLE"]), [])


def _check_bundle(sections: Sequence[Section], *used: Section) -> None:
    bundle = _bundle(sections[0])
    if any(section.mid not in bundle for section in used):
        raise _invalid("the sound track and the data channel must be in one a=group:BUNDLE")


def _opus(key: str, value: str) -> int | None:
    found = _OPUS.fullmatch(value) if key == "rtpmap" else None
    return int(found[1]) if found and int(found[1]) < 128 else None


def _ice(section: Section, name: str) -> str:
    value = section.get(name) or ""
    if not _ICE[name].fullmatch(value):
        raise _invalid(f"a={name} is missing or cannot be used")
    return value


def _fingerprints(section: Section) -> list[tuple[str, str]]:
    lines = [value for key, value in section.attributes if key == "fingerprint"]
    found = [(name.lower(), digest) for name, digest in map(_fingerprint, lines) if name]
    usable = [(name, digest) for name, digest in found if name in _DIGESTS]
    if not usable:
        raise _invalid(f"a=fingerprint with one of {', '.join(_DIGESTS)} is missing")
    return usable


def _fingerprint(value: str) -> tuple[str, str]:
    found = _DIGEST.fullmatch(value)
    return (found[1], found[2]) if found else ("", "")


def _number(section: Section, name: str, default: int, most: int) -> int:
    value = section.get(name)
    if value is None:
        return default
    if not (value.isascii() and value.isdigit() and len(value) < 16 and int(value) <= most):
        raise _invalid(f"a={name} must be a number of at most {most}")
    return int(value)


def _invalid(text: str) -> InvalidInput:
    return InvalidInput(f"sdp: {text}", field="sdp")
