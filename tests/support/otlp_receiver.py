"""A collector of traces that accepts OTLP over HTTP and keeps every span."""

import gzip
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class Seen:
    """One span. Times are in nanoseconds; `service` and `instance` name the process that sent it."""

    name: str
    service: str
    instance: str
    trace: str
    id: str
    parent: str
    began: int
    ended: int
    attributes: dict[str, Any]


class OtlpReceiver:
    def __init__(self) -> None:
        self.spans: list[Seen] = []
        self.paths: set[str] = set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                receiver.paths.add(self.path)
                receiver.spans += _spans(body)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: object) -> None:
                """Logs nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def named(self, name: str) -> list[Seen]:
        """Spans of one name, in the order of their start."""
        return sorted((span for span in self.spans if span.name == name), key=lambda s: s.began)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _spans(body: bytes) -> list[Seen]:
    request = ExportTraceServiceRequest.FromString(body)
    found: list[Seen] = []
    for resource in request.resource_spans:
        about = {item.key: item.value.string_value for item in resource.resource.attributes}
        for scope in resource.scope_spans:
            found += [
                Seen(
                    name=span.name,
                    service=about["service.name"],
                    instance=about["service.instance.id"],
                    trace=span.trace_id.hex(),
                    id=span.span_id.hex(),
                    parent=span.parent_span_id.hex(),
                    began=span.start_time_unix_nano,
                    ended=span.end_time_unix_nano,
                    attributes={item.key: _value(item.value) for item in span.attributes},
                )
                for span in scope.spans
            ]
    return found


def _value(value: Any) -> Any:
    return getattr(value, value.WhichOneof("value"))
