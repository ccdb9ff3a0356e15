"""Optional OpenTelemetry traces: one per session, over all processes that serve it.

A context is a W3C `traceparent` in ASCII. It is stored in the session's row and with each entry of its
streams, so every process can add spans to the session's trace. Times are Redis-clock milliseconds, so
spans of several hosts are consistent.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING

from pydantic import Field

from antiphon.broker.errors import BrokerError
from antiphon.broker.settings import AntiphonSettings

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

_STANDARD = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_SEND_S = 3.0
"""Longest wait for a collector, by one request and at the end of the process."""

Value = str | int | float | bool


class TracingUnavailable(BrokerError):
    """Tracing is configured, but its packages are not installed."""


class TracingSettings(AntiphonSettings):
    """Tracing is off unless a collector is set, here or in OpenTelemetry's `OTEL_…` variables."""

    otlp_endpoint: str | None = Field(default=None, pattern=r"^https?://")
    """base address of an OTLP/HTTP collector, such as http://127.0.0.1:4318"""


class OpenSpan:
    """A span that has not ended."""

    def __init__(self, span: Span) -> None:
        self._span = span
        context = span.get_span_context()
        ids = f"{context.trace_id:032x}-{context.span_id:016x}"
        self.context = f"00-{ids}-{context.trace_flags:02x}".encode()

    def end(self, at_ms: float, **attributes: Value) -> None:
        self._span.set_attributes(attributes)
        self._span.end(_nanoseconds(at_ms))


class Tracing:
    """Creates the spans of one process."""

    def __init__(self, provider: TracerProvider) -> None:
        self._tracer = provider.get_tracer("antiphon", version("antiphon"))

    def begin(self, name: str, at_ms: float, parent: bytes = b"", **attributes: Value) -> OpenSpan:
        """Start a span under `parent`; without one it is the root of a trace."""
        span = self._tracer.start_span(
            name, _context(parent), attributes=attributes, start_time=_nanoseconds(at_ms)
        )
        return OpenSpan(span)

    def record(
        self, name: str, parent: bytes, began_ms: float, ended_ms: float, **attributes: Value
    ) -> None:
        """Record a finished span. Its end is never before its start."""
        self.begin(name, began_ms, parent, **attributes).end(max(began_ms, ended_ms))


@asynccontextmanager
async def open_tracing(service: str, instance: str) -> AsyncIterator[Tracing | None]:
    """None without a collector. Spans that are not sent yet are sent on exit.

    Raises TracingUnavailable.
    """
    endpoint = TracingSettings().otlp_endpoint
    if endpoint is None and not any(os.environ.get(name) for name in _STANDARD):
        yield None
        return
    provider = _provider(service, instance, endpoint)
    try:
        yield Tracing(provider)
    finally:
        sending = threading.Thread(target=provider.shutdown, daemon=True)
        sending.start()
        await asyncio.to_thread(sending.join, _SEND_S)


def _provider(service: str, instance: str, endpoint: str | None) -> TracerProvider:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise TracingUnavailable(
            f"a trace collector is configured, but {error.name} is not installed; "
            "run: pip install '.[otel]' in Antiphon's checkout, or remove the setting"
        ) from error
    about = {
        "service.name": f"antiphon-{service}",
        "service.instance.id": instance,
        "service.version": version("antiphon"),
    }
    url = f"{endpoint.rstrip('/')}/v1/traces" if endpoint else None
    provider = TracerProvider(resource=Resource.create(about), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(url, timeout=_SEND_S)))
    return provider


def _context(parent: bytes) -> Context:
    from opentelemetry.context import Context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier = {"traceparent": parent.decode()}
    return TraceContextTextMapPropagator().extract(carrier, Context())


def _nanoseconds(ms: float) -> int:
    return int(ms * 1e6)
