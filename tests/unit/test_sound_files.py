"""Sound files of all kinds as questions of programs and of the command line, as voices, and in messages."""

import io
import os
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import av
import numpy as np
import pybase64
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from antiphon.cli.main import app
from antiphon.client.assistant import Client
from antiphon.client.errors import CannotConnect, ClientError, InvalidAudio, MissingFile
from antiphon.client.sound import load_wav
from antiphon.edge.media.decode import read_audio
from antiphon.edge.media.sound_files import encode_sound
from antiphon.edge.media.sound_process import read_sound_file
from antiphon.edge.media.voices import read_voice
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, Samples, float_bytes
from antiphon.shared_schemas.errors import InvalidInput
from antiphon.shared_schemas.file_kinds import file_kind
from antiphon.shared_schemas.wire import MediaBytes
from support.sound_files import LEVEL, PITCH, SOUND_FILES, WHOLE, Sound, SoundFile

NOWHERE = "ws://127.0.0.1:1"


@pytest.fixture(params=SOUND_FILES)
def case(request: pytest.FixtureRequest) -> SoundFile:
    found = SOUND_FILES[request.param]
    if found.needs and shutil.which(found.needs) is None:
        pytest.skip(f"needs {found.needs}")
    return found


def check(samples: Samples, want: Sound) -> None:
    """The tone, and nothing else, for so long."""
    assert samples.dtype == np.float32
    assert len(samples) / INPUT_RATE == pytest.approx(want.seconds, abs=want.slack)
    middle = samples[len(samples) // 4 : len(samples) * 3 // 4]
    spectrum = np.abs(np.fft.rfft(middle * np.hanning(len(middle))))
    pitch = int(np.argmax(spectrum)) * INPUT_RATE / len(middle)
    assert pitch == pytest.approx(PITCH, abs=6)
    assert float(np.abs(middle).max()) == pytest.approx(LEVEL, abs=0.08)


def test_a_sound_file_is_read_or_refused_alike_everywhere(case: SoundFile, tmp_path: Path) -> None:
    data = case.make()
    file = tmp_path / "speech.wav"  # the content decides, not the name
    file.write_bytes(data)
    if isinstance(case.loads, Sound):
        check(load_wav(file), case.loads)
    else:
        with pytest.raises(InvalidAudio, match=case.loads) as refused:
            load_wav(str(file))
        assert str(file) in refused.value.message
    said = (
        CliRunner()
        .invoke(app, ["talk", str(file), "--url", NOWHERE, "--out", str(tmp_path / "reply.wav")])
        .output
    )
    assert ("cannot connect" if isinstance(case.loads, Sound) else str(file)) in unwrapped(said)
    text = pybase64.b64encode_as_string(data)
    if isinstance(case.voice, Sound):
        check(np.frombuffer(read_voice(text, "voice", 30.0), "<f4"), case.voice)
    else:
        with pytest.raises(InvalidInput, match=case.voice) as invalid:
            read_voice(text, "voice", 30.0)
        assert invalid.value.field == "voice"
    if kind := file_kind(data):
        words = re.escape(f"audio: this is {kind}: send its samples as float32 PCM at 16 kHz")
        with pytest.raises(InvalidInput, match=f"^{words}$"):
            read_audio(text, "audio", 30.0)


def unwrapped(text: str) -> str:
    return " ".join(text.split())


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "loop.wav").symlink_to(tmp_path / "loop.wav")
    os.mkfifo(tmp_path / "pipe.wav")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket.wav"))
    for path, words in {
        tmp_path: "it is a folder",
        tmp_path / "pipe.wav": "it is a pipe or a device",
        tmp_path / "socket.wav": "it is a pipe or a device",
        "/dev/zero": "it is a pipe or a device",
        tmp_path / "loop.wav": "symbolic links",
        tmp_path / "absent.wav": "there is no file",
        tmp_path / "absent.wav" / "a.wav": "there is no file",
        "a" * 5000: "name too long",
        "a\0b.wav": "null",
        "": "it is a folder",
        "https://example.org/a.wav": "give a file instead of a URL",
    }.items():
        with pytest.raises(InvalidAudio, match=words) as refused:
            load_wav(path)
        assert refused.value.message.count("cannot read") <= 1
        if str(path) and "\0" not in str(path):  # no argument of a command
            said = CliRunner().invoke(app, ["talk", str(path), "--url", NOWHERE])
            assert said.exit_code == 1
            assert words in unwrapped(said.output)


def test_a_file_that_may_not_be_read_is_refused() -> None:
    with tempfile.TemporaryDirectory() as folder:
        secret = Path(folder) / "secret.wav"
        secret.write_bytes(WHOLE)
        secret.chmod(0)
        with _without_root(), pytest.raises(InvalidAudio, match=r"secret\.wav: Permission denied"):
            load_wav(secret)


@contextmanager
def _without_root() -> Iterator[None]:
    """Root may read every file."""
    user = os.geteuid()
    os.seteuid(user or 65534)
    try:
        yield
    finally:
        os.seteuid(user)


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "huge.wav").open("wb") as file:
        file.truncate(2**40)  # takes no space
    with pytest.raises(InvalidAudio, match="it is larger than 2048 MiB"):
        load_wav(tmp_path / "huge.wav")


def test_a_missing_file_is_an_error_of_the_client_and_of_python() -> None:
    with pytest.raises(MissingFile, match=r"there is no file absent\.wav$") as missing:
        load_wav("absent.wav")
    assert isinstance(missing.value, ClientError)
    assert isinstance(missing.value, FileNotFoundError)


@pytest.mark.parametrize("name", ["MP3", "AAC in MP4", "stereo with 44.1 kHz and 24 bits"])
def test_the_client_asks_what_the_command_asks(name: str, tmp_path: Path) -> None:
    (tmp_path / "question").write_bytes(SOUND_FILES[name].make())
    with pytest.raises(CannotConnect):  # the file was read
        Client(NOWHERE).ask(tmp_path / "question")
    with pytest.raises(
        MissingFile, match=r"there is no file .* \(`Client\.ask` takes a sound file"
    ):
        Client(NOWHERE).ask("What is the capital of Italy?")


@pytest.mark.parametrize(("name", "library"), [("MP3", "av"), ("44100 Hz", "soxr")])
def test_without_the_extra_its_name_is_in_the_error(
    name: str, library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    (tmp_path / "speech.wav").write_bytes(WHOLE)
    check(load_wav(tmp_path / "speech.wav"), Sound())
    (tmp_path / "speech.wav").write_bytes(SOUND_FILES[name].make())
    words = rf"{library} is not installed.*the extra `audio`.*ffmpeg -i {tmp_path}/speech\.wav"
    with pytest.raises(InvalidAudio, match=words):
        load_wav(tmp_path / "speech.wav")


@given(st.integers(0, 60), st.binary(min_size=1, max_size=24), st.sampled_from(list(SOUND_FILES)))
def test_any_header_is_read_or_refused(place: int, noise: bytes, name: str) -> None:
    if SOUND_FILES[name].needs:
        return
    data = SOUND_FILES[name].make()
    damaged = data[:place] + noise + data[place + len(noise) :]
    with suppress(InvalidInput):
        read_voice(MediaBytes(damaged), "voice", 30.0)
    with tempfile.NamedTemporaryFile() as file, suppress(InvalidAudio):
        file.write(damaged)
        file.flush()
        load_wav(file.name)


def test_samples_are_no_file() -> None:
    """Sound of a conversation must not be refused by chance."""
    random = np.random.default_rng(1)
    for _ in range(2000):
        assert file_kind(random.bytes(64)) is None
    for start in (
        b"\x1aE\xdf\xa3",
        b"PK\3\4",
        b"\x1f\x8b\x08\0",
        b"\xff\xd8\xff\xe1",
        b"\xff\xfb\x90\0",
    ):
        assert file_kind(start + random.bytes(4096)) is None


@pytest.mark.parametrize("form", ["mp3", "opus", "flac", "wav"])
def test_a_text_without_words_becomes_a_file_that_plays(form: str) -> None:
    samples = read_sound_file(encode_sound(form, b""), "file", 60)
    assert 0.05 < len(samples) / (2 * INPUT_RATE) < 0.3


def test_digital_silence_is_encoded_to_opus_as_the_faintest_sound() -> None:
    """libopus takes ten times as long for zeros."""

    def packets(sample: float) -> list[bytes]:
        file = encode_sound("opus", float_bytes(np.full(OUTPUT_RATE, sample, np.float32)))
        with av.open(io.BytesIO(file)) as container:
            return [bytes(packet) for packet in container.demux()]

    assert packets(0.0) == packets(1 / 32767)
