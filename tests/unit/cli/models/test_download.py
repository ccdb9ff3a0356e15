"""Downloads from a real HTTP server, which also behaves as badly as hubs and the way to them can."""

import fcntl
import hashlib
import os
import random
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest
import trustme

from antiphon.cli.models.download import (
    Download,
    DownloadFailed,
    DownloadRuns,
    PartialFile,
    Watcher,
    partial_path,
)
from support.connect_proxy import ConnectProxy, connect_proxy
from support.file_hub import Answer, FileHub, file_hub
from support.python_code import run_code

CONTENT = b"GGUF" + random.Random(1).randbytes(600_000)
HALF = 300_000


@pytest.fixture
def hub() -> Iterator[FileHub]:
    with file_hub(CONTENT) as server:
        yield server


class Run:
    """A download into an empty folder, and what it says and waits."""

    def __init__(self, url: str, folder: Path) -> None:
        self.target = folder / "models" / "model.gguf"
        self.part = partial_path(self.target)
        self.waited: list[float] = []
        self.said: list[str] = []
        self.progress: list[int] = []
        sha256 = hashlib.sha256(CONTENT).hexdigest()
        self.download = Download(
            f"{url}/org/repo/resolve/abc/model.gguf",
            self.target,
            len(CONTENT),
            sha256,
            b"GGUF",
            pause=self.waited.append,
        )

    def __call__(self) -> None:
        self.download.run(Watcher(self.progress.append, self.said.append))
        assert self.target.read_bytes() == CONTENT
        assert [path.name for path in self.target.parent.iterdir()] == ["model.gguf"]

    def fails(self, words: str) -> None:
        with pytest.raises(DownloadFailed, match=words):
            self.download.run(Watcher(self.progress.append, self.said.append))
        assert not self.target.exists()

    def begin(self, content: bytes) -> None:
        """As a run before has left it."""
        self.part.parent.mkdir()
        self.part.write_bytes(content)


@pytest.fixture
def run(hub: FileHub, tmp_path: Path) -> Run:
    return Run(hub.url, tmp_path)


def test_a_whole_file(hub: FileHub, run: Run) -> None:
    run()
    assert hub.paths == ["/org/repo/resolve/abc/model.gguf"]
    assert hub.ranges == [None]
    assert hub.asked[0]["user-agent"].startswith("antiphon/")
    assert run.progress == sorted(run.progress)
    assert (run.progress[0], run.progress[-1]) == (0, len(CONTENT))
    assert run.said == ["checking the SHA-256"]


def test_a_download_continues_where_connections_broke(hub: FileHub, run: Run) -> None:
    hub.script = [Answer(cut_after=HALF), Answer(cut_after=1000), Answer(cut_after=0)]
    run()
    assert hub.ranges == [None, "bytes=300000-", "bytes=301000-", "bytes=301000-"]
    assert run.waited == [1, 1, 2]
    assert "the connection broke; the next try is in 1 s" in run.said


def test_a_broken_answer_in_chunks_is_continued(hub: FileHub, run: Run) -> None:
    hub.script = [Answer(cut_after=HALF, chunked=True)]
    run()
    start = int(str(hub.ranges[1]).removeprefix("bytes=").removesuffix("-"))
    assert HALF - 10 < start < HALF


def test_a_later_run_continues(hub: FileHub, run: Run) -> None:
    run.begin(CONTENT[:HALF])
    run()
    assert hub.ranges == ["bytes=300000-"]


@pytest.mark.parametrize("chunked", [False, True])
def test_the_whole_file_in_place_of_the_rest(hub: FileHub, run: Run, chunked: bool) -> None:
    run.begin(b"GGUF" + b"\0" * HALF)
    hub.script = [Answer(takes_ranges=False, chunked=chunked)]
    run()
    assert len(hub.asked) == 1


@pytest.mark.parametrize("answer", [Answer(shift=1), Answer(status=416, body=b"")])
def test_a_hub_without_the_right_part_is_asked_for_the_whole(
    hub: FileHub, run: Run, answer: Answer
) -> None:
    run.begin(CONTENT[:HALF])
    hub.script = [answer]
    run()
    assert hub.ranges == ["bytes=300000-", None]


@pytest.mark.parametrize(
    "answer",
    [
        Answer(status=416, body=b""),
        Answer(status=206, body=CONTENT, headers={"Content-Range": "bytes 0-9/10"}),
        Answer(status=206, body=CONTENT),
        Answer(status=204, body=b""),
        Answer(status=203, body=CONTENT),
        Answer(body=CONTENT, headers={"Content-Encoding": "gzip"}),
        Answer(body=CONTENT[:-1]),
        Answer(body=CONTENT + b"\0"),
        Answer(body=CONTENT + b"\0", chunked=True),
        Answer(body=b"<html>Sign in to the network of this hotel"),
        Answer(body=b"<html>Sign in to the network of this hotel", chunked=True),
        Answer(body=b"<" * len(CONTENT)),
    ],
)
def test_answers_that_are_not_the_file(hub: FileHub, run: Run, answer: Answer) -> None:
    hub.script = [answer]
    run.fails("bytes|answer|sends")
    assert len(hub.asked) == 1


def test_the_page_of_a_hotel_leaves_what_was_downloaded(hub: FileHub, run: Run) -> None:
    run.begin(CONTENT[:HALF])
    hub.script = [Answer(body=b"<html>Sign in", chunked=True)]
    run.fails("sends something else than the file")
    run()
    assert hub.ranges[-1] == "bytes=300000-"


def test_a_part_of_another_file_has_the_wrong_hash(hub: FileHub, run: Run) -> None:
    run.begin(b"GGUF" + b"\0" * (HALF - 4))
    run.fails(r"SHA-256 \w{64} instead of \w{64}, so it was deleted")
    assert not any(run.target.parent.iterdir())
    run()
    assert hub.ranges[-1] is None


def test_a_whole_part_is_only_checked(hub: FileHub, run: Run) -> None:
    run.begin(CONTENT)
    run()
    assert hub.asked == []


def test_a_part_that_is_too_long_is_begun_again(hub: FileHub, run: Run) -> None:
    run.begin(CONTENT + b"\0")
    run()
    assert hub.ranges == [None]


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (404, "answers 404: the file is not there"),
        (410, "answers 410: the file is not there"),
        (401, "answers 401: it does not give the file to everyone"),
        (403, "answers 403: it does not give the file to everyone"),
        (407, "the proxy wants a login"),
        (400, "answers 400$"),
    ],
)
def test_refusals_end_the_download(hub: FileHub, run: Run, status: int, words: str) -> None:
    hub.script = [Answer(status, body=b"\x1b[31mno", headers={"X": "\x1b]0;title\x07"})]
    run.fails(words)
    assert run.waited == []
    assert not any(run.target.parent.iterdir())


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_busy_hub_is_asked_again_when_it_says(hub: FileHub, run: Run, status: int) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=50), usegmt=True)
    hub.script = [
        Answer(status, {"Retry-After": "7"}, b""),
        Answer(status, {"Retry-After": date}, b""),
        Answer(status, {"Retry-After": "soon"}, b""),
        Answer(status, {"Retry-After": "-1"}, b""),
        Answer(status, {}, b""),
    ]
    run()
    assert run.waited[0] == 7
    assert 0 <= run.waited[1] <= 50
    assert run.waited[2:] == [8, 16, 30]
    assert f"answers {status}; the next try is in 7 s" in run.said[0]


def test_a_hub_that_stays_busy_is_given_up(hub: FileHub, run: Run) -> None:
    run.begin(CONTENT[:HALF])
    hub.script = [Answer(503, {}, b"")] * 9
    run.fails("answers 503; 0 of 1 MB are kept, and the same command continues")
    assert len(hub.asked) == 6


def test_a_hub_that_begins_again_each_time_is_given_up(hub: FileHub, run: Run) -> None:
    cut = Answer(cut_after=HALF, takes_ranges=False)
    hub.script = [cut, cut, Answer(416, body=b""), cut, Answer(416, body=b"")] * 3
    run.fails("connection broke|answers 416")
    assert len(hub.asked) == 7


def test_a_hub_that_asks_to_wait_long_is_asked_later(hub: FileHub, run: Run) -> None:
    hub.script = [Answer(429, {"Retry-After": "3600"}, b"")]
    run.fails("answers 429, and asks to wait 3600 s")
    assert run.waited == []


def test_redirects_to_another_host_are_followed(hub: FileHub, run: Run) -> None:
    with file_hub(CONTENT) as store:
        to_store = Answer(302, {"Location": f"{store.url}/blob?signature=1"}, b"")
        store.script = [Answer(cut_after=HALF)]
        hub.script = [to_store, to_store]
        run()
        assert store.paths == ["/blob?signature=1"] * 2
        assert store.ranges == [None, "bytes=300000-"]


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("file:///etc/passwd", "answers 302: a redirect that leads nowhere"),
        ("ftp://127.0.0.1/model", "redirects to an address without HTTPS"),
        ("http://127.0.0.1:9/model", "cannot reach http://127.0.0.1:9: nothing listens there"),
    ],
)
def test_other_redirects(hub: FileHub, run: Run, location: str, words: str) -> None:
    hub.script = [Answer(302, {"Location": location}, b"")]
    run.fails(words)


def test_a_redirect_to_itself_ends(hub: FileHub, run: Run) -> None:
    hub.script = [Answer(302, {"Location": "/again"}, b"")] * 20
    run.fails("answers 302: a redirect that leads nowhere")


@pytest.mark.parametrize("reply", [b"", b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 200 OK\r\n"])
def test_what_listens_there_is_no_hub(run: Run, reply: bytes) -> None:
    with listener(reply) as url:
        run.download = replace(run.download, url=f"{url}/f")
        run.fails("does not answer|does not speak HTTP|too early")


@contextmanager
def listener(reply: bytes) -> Iterator[str]:
    """A server that answers each connection with the same bytes."""
    server = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        with suppress(OSError):  # it was shut down
            while True:
                connection, _ = server.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(reply)

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
    finally:
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
        server.close()


def test_without_a_connection_nothing_is_tried_again(run: Run) -> None:
    run.download = replace(run.download, url="http://127.0.0.1:1/f")
    run.fails("cannot reach http://127.0.0.1:1: nothing listens there$")
    run.download = replace(run.download, url="http://hub.invalid/f")
    run.fails("cannot reach http://hub.invalid: its name is unknown")
    assert run.waited == []


def test_a_network_that_goes_away_is_waited_for(hub: FileHub, run: Run) -> None:
    hub.script = [
        Answer(cut_after=HALF),
        *[Answer(302, {"Location": "http://127.0.0.1:1/"}, b"")] * 3,
    ]
    run()
    assert run.waited == [1, 2, 4, 8]


def test_a_certificate_without_a_known_authority(run: Run) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    with file_hub(CONTENT, context) as hub:
        run.download = replace(run.download, url=f"{hub.url}/f")
        run.fails("certificate of https://127.0.0.1.* is not trusted .*SSL_CERT_FILE")


def test_a_redirect_away_from_https(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with file_hub(CONTENT, context) as hub, authority.cert_pem.tempfile() as certificate:
        monkeypatch.setenv("SSL_CERT_FILE", certificate)
        run.download = replace(run.download, url=f"{hub.url}/f")
        hub.script = [Answer(302, {"Location": "http://127.0.0.1:1/f"}, b"")]
        run.fails("redirects to an address without HTTPS")
        run()


def test_proxies_of_the_environment(
    hub: FileHub, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`hub` is the proxy of a host that does not exist."""
    run.download = replace(run.download, url="http://hub.invalid/org/f")
    monkeypatch.setenv("HTTP_PROXY", hub.url)
    monkeypatch.setenv("http_proxy", hub.url.replace("//", "//user:secret@"))
    hub.script = [Answer(404, {}, b"")]
    run.fails(f"^http://hub.invalid through the proxy {hub.url} answers 404")
    run()
    assert hub.paths == ["http://hub.invalid/org/f"] * 2
    assert hub.asked[0]["proxy-authorization"].startswith("Basic ")
    monkeypatch.setenv("no_proxy", "hub.invalid")
    run.target.unlink()
    run.fails("cannot reach http://hub.invalid: its name is unknown")


@pytest.fixture
def proxy(run: Run, monkeypatch: pytest.MonkeyPatch) -> Iterator[ConnectProxy]:
    """The way to https://hub.invalid, whose certificate is trusted."""
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("hub.invalid").configure_cert(context)
    with (
        file_hub(CONTENT, context) as hub,
        authority.cert_pem.tempfile() as certificate,
        connect_proxy(int(hub.url.rpartition(":")[2])) as proxy,
    ):
        monkeypatch.setenv("SSL_CERT_FILE", certificate)
        monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace("//", "//user:secret@"))
        run.download = replace(run.download, url="https://hub.invalid/org/f")
        hub.script = [Answer(cut_after=HALF)]
        yield proxy


def test_https_goes_through_a_tunnel_of_the_proxy(proxy: ConnectProxy, run: Run) -> None:
    run()
    assert proxy.asked == [("hub.invalid:443", "Basic dXNlcjpzZWNyZXQ=")] * 2


def test_a_certificate_is_checked_through_a_tunnel(proxy: ConnectProxy, run: Run) -> None:
    run.download = replace(run.download, url="https://other.invalid/org/f")
    run.fails(f"certificate of https://other.invalid through the proxy {proxy.url} is not trusted")


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (407, "answers 407: the proxy wants a login, as in http://USER:PASSWORD@HOST:PORT$"),
        (403, "answers 403: the proxy does not lead there$"),
    ],
)
def test_a_proxy_that_refuses_a_tunnel(
    proxy: ConnectProxy, run: Run, status: int, words: str
) -> None:
    proxy.refusal = status
    run.fails(f"^https://hub.invalid through the proxy {proxy.url} {words}")
    assert run.waited == []


def test_a_proxy_without_a_way_to_the_hub_is_asked_again(proxy: ConnectProxy, run: Run) -> None:
    proxy.refusal = 502
    run.begin(CONTENT[:HALF])
    run.fails(f"^https://hub.invalid through the proxy {proxy.url} answers 502; .* are kept")
    assert len(proxy.asked) == 6


def test_two_processes_do_not_write_one_file(hub: FileHub, run: Run) -> None:
    run.begin(b"")
    with PartialFile(run.target):
        with pytest.raises(DownloadRuns, match="another process downloads model"):
            run.download.run(Watcher(run.progress.append, run.said.append))
        assert hub.asked == []
    run()


def test_a_process_that_waited_finds_the_finished_file(hub: FileHub, run: Run) -> None:
    """The other one has renamed or removed its file between `open` and `flock`."""
    run.begin(CONTENT)
    locks: list[int] = []

    def flock(file: int, operation: int) -> None:
        if not locks:
            run.part.rename(run.target)
        locks.append(operation)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fcntl, "flock", flock)
        run()
    assert len(locks) == 2
    assert hub.asked == []


def test_a_disk_without_room_is_found_before(hub: FileHub, run: Run) -> None:
    run.download = replace(run.download, size=2**60)
    run.fails("MB free, and .* MB are missing; make room there, or set XDG_DATA_HOME")
    assert hub.asked == []


def test_a_disk_that_fills_keeps_what_it_took(hub: FileHub, run: Run) -> None:
    """A limit of the process stands for the disk."""
    code = f"""
import resource
from pathlib import Path
from antiphon.cli.models.download import Download, DownloadFailed, Watcher
resource.setrlimit(resource.RLIMIT_FSIZE, ({HALF}, resource.RLIM_INFINITY))
download = Download({run.download.url!r}, Path({str(run.target)!r}), {len(CONTENT)}, "", b"GGUF")
try:
    download.run(Watcher(lambda done: None, print))
except DownloadFailed as error:
    print(error)
"""
    shown = run_code(code, environment=dict(os.environ)).stdout
    assert shown.startswith(f"cannot write in {run.target.parent}: File too large. Make room")
    assert run.part.stat().st_size == HALF
    run()
    assert hub.ranges == [None, f"bytes={HALF}-"]


def test_a_folder_that_is_a_file(run: Run) -> None:
    run.target.parent.write_text("")
    run.fails(f"cannot write in {run.target.parent}: File exists")
