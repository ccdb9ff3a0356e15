"""Aborts a connection whose client reads its responses too slowly, or not at all."""

from __future__ import annotations

import asyncio
import fcntl
import struct
import termios

from antiphon.edge.access.http_limits import MIN_DOWNLOAD_RATE, HttpConnectionLimiter


class ReaderWatch:
    """Measures while the transport waits for the client; the time of the application does not count."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        transport: asyncio.Transport,
        limiter: HttpConnectionLimiter,
    ) -> None:
        self.sent = 0
        """Bytes of this response so far; the sender counts them."""
        self.descriptor = int(transport.get_extra_info("socket").fileno())
        self._loop = loop
        self._transport = transport
        self._limiter = limiter
        self._check: asyncio.TimerHandle | None = None
        self._unread = 0
        self._since = 0.0
        self._waited = 0.0

    @property
    def waits(self) -> bool:
        """True while the client must read before more can be sent."""
        return self._check is not None

    def begin(self) -> None:
        """Another response begins."""
        if not self.waits:
            self.sent, self._waited = 0, 0.0

    def pause(self) -> None:
        if not self.waits:
            self._since = self._loop.time()
            self._unread = self._unread_bytes()
            self._check_later()

    def resume(self) -> None:
        if self._check is None:
            return
        if self._too_slow():
            self._abort()
        self._waited += self._loop.time() - self._since
        self.stop()

    def stop(self) -> None:
        if self._check is not None:
            self._check.cancel()
            self._check = None

    def moved(self) -> bool:
        """True if the client has read anything since the last call."""
        before, self._unread = self._unread, self._unread_bytes()
        return self._unread != before

    def _check_later(self) -> None:
        self._check = self._loop.call_later(self._limiter.send_stall_s, self._check_progress)

    def _check_progress(self) -> None:
        if self.moved() and not self._too_slow():
            self._check_later()
        else:
            self._abort()

    def _too_slow(self) -> bool:
        waited = self._waited + self._loop.time() - self._since
        read = max(0, self.sent - self._unread_bytes())
        return waited > self._limiter.send_stall_s + read / MIN_DOWNLOAD_RATE

    def _abort(self) -> None:
        self.stop()
        if not self._transport.is_closing() or self._transport.get_write_buffer_size():
            self._limiter.report("slow_consumer")
            self._transport.abort()

    def _unread_bytes(self) -> int:
        """Bytes that the client has not acknowledged, in this process and in the kernel.

        This process alone sees no progress for long, because the kernel takes data in large steps.
        """
        queued = fcntl.ioctl(self.descriptor, termios.TIOCOUTQ, bytes(4))
        return self._transport.get_write_buffer_size() + int(struct.unpack("i", queued)[0])
