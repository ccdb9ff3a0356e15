"""Sound files as recorders and converters leave them: complete, unusual, damaged, and no sound at all.

Each has a tone of 440 Hz, which is found again in what was read. Our own writer makes headers that no
program would; FFmpeg (PyAV) and sox make the others.
"""

import io
import shutil
import struct
import subprocess
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import av
import numpy as np
from av.audio.frame import AudioFrame

from antiphon.shared_schemas.audio import INPUT_RATE, Samples
from support.video_files import video

PITCH = 440.0
LEVEL = 0.5
_GUID_END = bytes.fromhex("000000001000800000aa00389b71")


@dataclass(frozen=True)
class Sound:
    """What is read of a file: so many seconds of the tone."""

    seconds: float = 1.0
    slack: float = 0.002


@dataclass(frozen=True)
class SoundFile:
    """`loads`: what the client reads, or the words of its refusal; `voice`: the same for an uploaded voice."""

    make: Callable[[], bytes]
    loads: Sound | str
    voice: Sound | str
    needs: str | None = None
    """A program."""


def tone(rate: int = INPUT_RATE, channels: int = 1, seconds: float = 1.0) -> Samples:
    """Interleaved, shape (n, channels)."""
    times = np.arange(round(rate * seconds)) / rate
    mono = (np.sin(2 * np.pi * PITCH * times) * LEVEL).astype(np.float32)
    return np.repeat(mono[:, None], channels, axis=1)


def pcm(samples: Samples, dtype: str) -> bytes:
    """As `u1`, `<i2`, `<i3`, `<f4` and others."""
    kind, width = dtype[-2], int(dtype[-1])
    if kind == "f":
        return samples.astype(dtype).tobytes()
    if kind == "u":
        return (samples * 127 + 128).round().astype(np.uint8).tobytes()
    scaled = (samples.astype(np.float64) * (2.0 ** (8 * width - 1) - 1)).round()
    if width == 3:
        parts = scaled.astype("<i4").reshape(-1, 1).view(np.uint8)[:, :3]
        return (parts if dtype[0] == "<" else parts[:, ::-1]).tobytes()
    return scaled.astype(dtype).tobytes()


def chunk(name: bytes, data: bytes, size: int | None = None, *, order: str = "<") -> bytes:
    """With the byte that fills up an odd length."""
    stated = len(data) if size is None else size
    return name + struct.pack(order + "I", stated) + data + b"\0" * (len(data) % 2)


def form(
    tag: int = 1,
    channels: int = 1,
    rate: int = INPUT_RATE,
    bits: int = 16,
    *,
    align: int | None = None,
    more: bytes = b"",
    order: str = "<",
) -> bytes:
    """The chunk `fmt `."""
    align = channels * ((bits + 7) // 8) if align is None else align
    second = rate * align & 0xFFFFFFFF
    fields = struct.pack(order + "HHIIHH", tag, channels, rate, second, align, bits)
    return chunk(b"fmt ", fields + more, order=order)


def extensible(tag: int, bits: int, guid_end: bytes = _GUID_END) -> bytes:
    more = struct.pack("<HHI", 22, bits, 4) + struct.pack("<H", tag) + guid_end
    return form(0xFFFE, bits=bits, more=more)


def riff(*chunks: bytes, size: int | None = None, name: bytes = b"RIFF") -> bytes:
    body = b"WAVE" + b"".join(chunks)
    order = ">" if name == b"RIFX" else "<"
    return name + struct.pack(order + "I", len(body) if size is None else size) + body


def wav(dtype: str = "<i2", tag: int = 1, channels: int = 1, rate: int = INPUT_RATE) -> bytes:
    """A complete file with the tone."""
    about = form(tag, channels, rate, 8 * int(dtype[-1]))
    return riff(about, chunk(b"data", pcm(tone(rate, channels), dtype)))


DATA = pcm(tone(), "<i2")
WHOLE = wav()
_FMT = form()


def framed(*before: bytes, after: bytes = b"") -> bytes:
    return riff(*before, _FMT, chunk(b"data", DATA), after)


def listed(text: bytes = b"INFOISFT\x05\0\0\0Lavf\0") -> bytes:
    return chunk(b"LIST", text)


def unpadded(name: bytes, data: bytes) -> bytes:
    return name + struct.pack("<I", len(data)) + data


def sized(size: int, outer: int | None = None) -> bytes:
    """A WAV file with these sizes in its header."""
    return riff(_FMT, chunk(b"data", DATA, size), size=size if outer is None else outer)


def ds64(samples: bytes) -> bytes:
    return chunk(
        b"ds64", struct.pack("<QQQI", len(samples) + 80, len(samples), len(samples) // 2, 0)
    )


class _Pipe(io.RawIOBase):
    """Cannot seek, so that a header is never completed."""

    def __init__(self) -> None:
        self.data = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        self.data += bytes(data)  # type: ignore[call-overload]
        return len(bytes(data))  # type: ignore[call-overload]


@cache
def encoded(
    container: str,
    codec: str,
    *,
    rate: int = INPUT_RATE,
    channels: int = 1,
    form: str | None = None,
    seconds: float = 1.0,
    title: str = "",
    pipe: bool = False,
) -> bytes:
    """By FFmpeg. `form` is the sample format of the codec."""
    target = _Pipe() if pipe else io.BytesIO()
    layout = {1: "mono", 2: "stereo", 8: "7.1"}[channels]
    with av.open(target, "w", format=container) as out:
        if title:
            out.metadata["title"] = title
        stream = out.add_stream(codec, rate=rate, layout=layout)
        if form:
            stream.codec_context.format = form
        stream.codec_context.options = {"strict": "experimental"}  # of Vorbis
        samples = np.ascontiguousarray(tone(rate, channels, seconds))
        frame = AudioFrame.from_ndarray(samples.reshape(1, -1), format="flt", layout=layout)
        frame.sample_rate, frame.pts = rate, 0
        convert = av.AudioResampler(
            format=stream.codec_context.format.name,
            layout=layout,
            rate=rate,
            frame_size=stream.codec_context.frame_size or None,
        )
        for part in [*convert.resample(frame), *convert.resample(None)]:
            out.mux(stream.encode(part))
        out.mux(stream.encode(None))
    return bytes(target.data) if isinstance(target, _Pipe) else target.getvalue()


def sox(*output: str) -> bytes:
    """The tone as sox writes it into a pipe: its headers are never completed."""
    program = shutil.which("sox")
    assert program
    return subprocess.run(
        [program, "-", *output, "-"], input=WHOLE, capture_output=True, check=True
    ).stdout


def zipped() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("speech.wav", WHOLE)
    return buffer.getvalue()


def play(make: Callable[[], bytes], sound: Sound = Sound()) -> SoundFile:
    """Read everywhere."""
    return SoundFile(make, sound, sound)


def refuse(make: Callable[[], bytes], words: str, voice: str | None = None) -> SoundFile:
    return SoundFile(make, words, voice or words)


def convert(
    make: Callable[[], bytes], voice: str, slack: float = 0.002, needs: str | None = None
) -> SoundFile:
    """The client reads it with the extra `audio`; a voice is refused by its kind."""
    return SoundFile(make, Sound(slack=slack), voice, needs)


_FLAC = encoded("flac", "flac", form="s16")
_MP3 = encoded("mp3", "libmp3lame", seconds=2.0)
_NOT_SOUND = "it is not a sound file"
_SAMPLES = "whole number of float32 samples|a sample of|NaN|text is not"

SOUND_FILES: dict[str, SoundFile] = {
    "16 bits": play(lambda: WHOLE),
    "cut at an odd byte": play(lambda: WHOLE[:-16_001], Sound(0.5)),
    "cut in a frame of stereo": play(lambda: wav(channels=2)[:-3]),
    "sizes of 0": play(lambda: sized(0)),
    "sizes of 0xffffffff": play(lambda: sized(0xFFFFFFFF)),
    "sizes of 0x7fffffff": play(lambda: sized(0x7FFFFFFF)),
    "sizes of arecord": play(lambda: sized(0x80000000, 0x80000024)),
    "only the size of the sound is 0": play(lambda: sized(0, len(WHOLE) - 8)),
    "only the size of the file is 0": play(lambda: sized(len(DATA), 0)),
    "ffmpeg into a pipe": play(lambda: encoded("wav", "pcm_s16le", pipe=True)),
    "sox into a pipe": SoundFile(lambda: sox("-t", "wav"), Sound(), Sound(), "sox"),
    "LIST in front": play(lambda: framed(listed())),
    "odd LIST in front": play(lambda: framed(listed(b"INFOISFT\x03\0\0\0abc"))),
    "odd LIST without padding": play(lambda: framed(unpadded(b"LIST", b"INFOISFT\x03\0\0\0abc"))),
    "odd fmt without padding": play(
        lambda: riff(unpadded(b"fmt ", _FMT[8:] + b"\0"), chunk(b"data", DATA))
    ),
    "odd unknown chunk": play(lambda: framed(chunk(b"xyzw", b"1"))),
    "JUNK in front": play(lambda: framed(chunk(b"JUNK", bytes(28)))),
    "bext in front": play(lambda: framed(chunk(b"bext", bytes(602)))),
    "fact between": play(lambda: riff(_FMT, chunk(b"fact", bytes(4)), chunk(b"data", DATA))),
    "LIST behind": play(lambda: framed(after=listed())),
    "id3 behind": play(lambda: framed(after=chunk(b"id3 ", b"ID3\3" + bytes(200)))),
    "data in front of fmt": play(lambda: riff(chunk(b"data", DATA), _FMT)),
    "RIFX": play(
        lambda: riff(form(order=">"), chunk(b"data", pcm(tone(), ">i2"), order=">"), name=b"RIFX")
    ),
    "RIFX with 24 bits": play(
        lambda: riff(
            form(bits=24, order=">"), chunk(b"data", pcm(tone(), ">i3"), order=">"), name=b"RIFX"
        )
    ),
    "RF64": play(
        lambda: riff(
            ds64(DATA),
            _FMT,
            chunk(b"data", DATA, 0xFFFFFFFF),
            listed(),
            size=0xFFFFFFFF,
            name=b"RF64",
        )
    ),
    "RF64 without ds64": play(
        lambda: riff(_FMT, chunk(b"data", DATA, 0xFFFFFFFF), size=0xFFFFFFFF, name=b"RF64")
    ),
    "BW64": play(lambda: riff(ds64(DATA), _FMT, chunk(b"data", DATA), name=b"BW64")),
    "extensible, 16 bits": play(lambda: riff(extensible(1, 16), chunk(b"data", DATA))),
    "extensible, 24 bits": play(
        lambda: riff(extensible(1, 24), chunk(b"data", pcm(tone(), "<i3")))
    ),
    "extensible, floats": play(lambda: riff(extensible(3, 32), chunk(b"data", pcm(tone(), "<f4")))),
    "extensible, unknown": refuse(
        lambda: riff(extensible(1, 16, bytes(14)), chunk(b"data", DATA)), "its format is unknown"
    ),
    "8 bits": play(lambda: wav("u1")),
    "24 bits": play(lambda: wav("<i3")),
    "32 bits": play(lambda: wav("<i4")),
    "64 bits": play(lambda: wav("<i8")),
    "24 bits in 4 bytes": play(
        lambda: riff(form(bits=24, align=4), chunk(b"data", pcm(tone(), "<i4")))
    ),
    "12 bits in 2 bytes": play(lambda: riff(form(bits=12), chunk(b"data", DATA))),
    "float16": play(lambda: wav("<f2", 3)),
    "float32": play(lambda: wav("<f4", 3)),
    "float64": play(lambda: wav("<f8", 3)),
    "A-law": play(lambda: encoded("wav", "pcm_alaw", form="s16")),
    "µ-law": play(lambda: encoded("wav", "pcm_mulaw", form="s16")),
    "µ-law of sox": SoundFile(lambda: sox("-t", "wav", "-e", "u-law"), Sound(), Sound(), "sox"),
    "A-law of sox": SoundFile(lambda: sox("-t", "wav", "-e", "a-law"), Sound(), Sound(), "sox"),
    "24 bits of sox": SoundFile(lambda: sox("-t", "wav", "-b", "24"), Sound(), Sound(), "sox"),
    **{f"{n} channels": play(lambda n=n: wav(channels=n)) for n in (2, 3, 4, 6, 8)},
    "16 channels": SoundFile(
        lambda: wav(channels=16), Sound(), "16 channels cannot be used, at most 8"
    ),
    **{
        f"{rate} Hz": play(lambda rate=rate: wav(rate=rate))
        for rate in (8_000, 11_025, 22_050, 32_000, 44_100, 48_000, 96_000, 192_000)
    },
    "stereo with 44.1 kHz and 24 bits": play(lambda: wav("<i3", 1, 2, 44_100)),
    "0 Hz": refuse(lambda: riff(form(rate=0), chunk(b"data", DATA)), "says 0 Hz"),
    "1 GHz": refuse(lambda: riff(form(rate=10**9), chunk(b"data", DATA)), "says 1000000000 Hz"),
    "0 channels": refuse(lambda: riff(form(channels=0), chunk(b"data", DATA)), "0 channels"),
    "65535 channels": refuse(
        lambda: riff(form(channels=65_535, align=2), chunk(b"data", DATA)), "65535 channels"
    ),
    "0 bits": refuse(lambda: riff(form(bits=0), chunk(b"data", DATA)), "samples of 0 bits"),
    "1 bit": refuse(lambda: riff(form(bits=1), chunk(b"data", DATA)), "samples of 1 bits"),
    "20 bits in 3 bytes": play(lambda: riff(form(bits=20), chunk(b"data", pcm(tone(), "<i3")))),
    "4 bits": refuse(lambda: riff(form(bits=4), chunk(b"data", DATA)), "samples of 4 bits"),
    "24-bit floats": refuse(lambda: riff(form(3, bits=24), chunk(b"data", DATA)), "floats of 24"),
    "a frame of 0 bytes": play(lambda: riff(form(align=0), chunk(b"data", DATA))),
    "a frame of 7 bytes": play(lambda: riff(form(align=7), chunk(b"data", DATA))),
    "no sound": refuse(lambda: riff(_FMT, chunk(b"data", b"")), "it has no sound"),
    "no sound in front of LIST": refuse(
        lambda: riff(_FMT, chunk(b"data", b""), listed()), "it has no sound"
    ),
    "one byte": refuse(lambda: riff(_FMT, b"data\1\0\0\0a"), "it has no sound"),
    "no data": refuse(lambda: riff(_FMT), "the chunk `data` is missing"),
    "no fmt": refuse(lambda: riff(chunk(b"data", DATA)), "no chunk `fmt `"),
    "header cut off": refuse(lambda: WHOLE[:20], "its header is cut off"),
    "fmt cut off": refuse(lambda: WHOLE[:30], "`fmt ` is too short"),
    "only RIFF": refuse(
        lambda: WHOLE[:4], _NOT_SOUND, "1 samples, at least|shorter|holds|a sample|"
    ),
    "a size beyond the end": refuse(
        lambda: riff(b"fmt \xf0\xff\xff\xff" + _FMT[8:12]), "`fmt ` is too short"
    ),
    "NaN": refuse(
        lambda: riff(form(3, bits=32), chunk(b"data", struct.pack("<2f", 0.0, float("nan")))),
        "NaN or infinite",
    ),
    "infinite as float64": refuse(
        lambda: riff(form(3, bits=64), chunk(b"data", struct.pack("<2d", 0.0, 1e300))),
        "NaN or infinite",
    ),
    "floats in the scale of 16 bits": refuse(
        lambda: riff(form(3, bits=32), chunk(b"data", pcm(tone() * 32767, "<f4"))),
        "values up to 16383|a sample of 16383",
    ),
    "IMA ADPCM": convert(
        lambda: encoded("wav", "adpcm_ima_wav", form="s16p"), "compressed .IMA ADPCM", 0.1
    ),
    "MS ADPCM": convert(lambda: encoded("wav", "adpcm_ms", form="s16"), "compressed .ADPCM", 0.1),
    "MP3 in WAV": convert(lambda: encoded("wav", "libmp3lame"), "compressed .MP3", 0.2),
    "ADPCM without content": refuse(
        lambda: riff(form(2, bits=4, align=0), chunk(b"data", bytes(3))), "compressed .ADPCM"
    ),
    "Wave64": convert(lambda: encoded("w64", "pcm_s16le"), "this is a Wave64 file"),
    "FLAC with 8 channels": convert(
        lambda: encoded("flac", "flac", form="s16", channels=8), "this is a FLAC file"
    ),
    "FLAC": convert(lambda: _FLAC, "this is a FLAC file"),
    "FLAC cut off": SoundFile(
        lambda: _FLAC[: (len(_FLAC) + 8192) // 2], Sound(0.5, 0.2), "this is a FLAC file"
    ),
    "MP3": SoundFile(lambda: _MP3, Sound(2.0, 0.2), "this is an MP3 file"),
    "MP3 with a title": convert(
        lambda: encoded("mp3", "libmp3lame", title="Speech"), "this is an MP3 file", 0.2
    ),
    "MP3 cut off": SoundFile(
        lambda: _MP3[: len(_MP3) // 2], Sound(1.0, 0.2), "this is an MP3 file"
    ),
    "MP3 without its beginning": SoundFile(
        lambda: _MP3[len(_MP3) // 2 :], Sound(1.0, 0.3), _SAMPLES
    ),
    "MP3 that is a title only": refuse(
        lambda: b"ID3\3\0\0\0\0\0\x10" + bytes(16), "damaged or incomplete", "this is an MP3 file"
    ),
    "Opus in Ogg": convert(
        lambda: encoded("ogg", "libopus", rate=48_000), "this is an Ogg file", 0.1
    ),
    "Vorbis in Ogg": convert(
        lambda: encoded("ogg", "vorbis", rate=44_100, channels=2), "this is an Ogg file", 0.1
    ),
    "Opus in WebM": convert(
        lambda: encoded("webm", "libopus", rate=48_000), "this is a WebM file", 0.1
    ),
    "AAC in Matroska": convert(lambda: encoded("matroska", "aac"), "this is a Matroska file", 0.2),
    "AAC in MP4": convert(
        lambda: encoded("ipod", "aac", rate=44_100, channels=2), "this is an MP4 file", 0.2
    ),
    "MP4 cut off": refuse(
        lambda: encoded("ipod", "aac")[:-200], "damaged or incomplete", "this is an MP4 file"
    ),
    "AAC": convert(lambda: encoded("adts", "aac"), "this is an AAC file", 0.2),
    "AIFF": convert(lambda: encoded("aiff", "pcm_s16be"), "this is an AIFF file"),
    "AU of sox": convert(lambda: sox("-t", "au"), "this is an AU file", needs="sox"),
    "CAF": convert(lambda: encoded("caf", "pcm_s16le"), "this is a CAF file"),
    "a video": convert(lambda: video(seconds=1, sound=tone()[:, 0]), "this is an MP4 file", 0.2),
    "a video without sound": refuse(video, "no sound track", "this is an MP4 file"),
    "nothing": refuse(lambda: b"", "it is empty", "holds no samples"),
    "a text": refuse(lambda: b"words, no sound\n" * 9, _NOT_SOUND, "text is not float32 audio"),
    "an HTML page": refuse(
        lambda: b"<!DOCTYPE html><title>404</title>", "it is an HTML page", "this is an HTML page"
    ),
    "a playlist": refuse(
        lambda: b"#EXTM3U\nhttp://127.0.0.1:1/a.ts\n" * 3, _NOT_SOUND, "text is not|whole number"
    ),
    "an archive": refuse(zipped, "it is a ZIP archive", "this is a ZIP archive"),
    "a picture": refuse(
        lambda: b"\x89PNG\r\n\x1a\n" + bytes(99), "it is a PNG picture", "this is a PNG picture"
    ),
    "numbers": refuse(lambda: bytes(range(1, 252)) * 5, _NOT_SOUND, _SAMPLES),
}
