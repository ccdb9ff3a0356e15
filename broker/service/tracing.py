"""Optional traces by OpenTelemetry: one per session, over all processes that take part in it.

A context is a W3C `traceparent` in ASCII. It lies in the session's row and beside each entry of its
streams, so that whoever works on an entry can add a span to the session's trace. Times are Redis-clock
milliseconds, as everywhere, so that spans of several hosts fit each other.
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
    """Traces are asked for, and what sends them is not installed."""


class TracingSettings(AntiphonSettings):
    """Traces are off unless a collector is named, here or by OpenTelemetry's own `OTEL_…` variables."""

    otlp_endpoint: str | None = Field(
        default=None,
        pattern=r"^https?://",
        description="base address of an OTLP/HTTP collector, such as http://127.0.0.1:4318",
    )


class OpenSpan:
    """Work that goes on."""

    def __init__(self, span: Span) -> None:
        self._span = span
        context = span.get_span_context()
        ids = f"{context.trace_id:032x}-{context.span_id:016x}"
        self.context = f"00-{ids}-{context.trace_flags:02x}".encode()

    def end(self, at_ms: float, **attributes: Value) -> None:
        """It is done."""
        self._span.set_attributes(attributes)
        self._span.end(_nanoseconds(at_ms))


class Tracing:
    """Spans of one process."""

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
        """A span that has ended already. Its end is never before its beginning."""
        self.begin(name, began_ms, parent, **attributes).end(max(began_ms, ended_ms))


@asynccontextmanager
async def open_tracing(service: str, instance: str) -> AsyncIterator[Tracing | None]:
    """None where no collector is named. What is not sent at the end is sent then.

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
            f"a collector for traces is named, but {error.name} is not installed; "
            "run: pip install 'antiphon[otel]', or name none"
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
