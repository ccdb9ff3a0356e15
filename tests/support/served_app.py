"""A server in a thread, for scripted servers that tests control from outside its event loop."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI


@contextmanager
def served(
    app: FastAPI,
    listener: socket.socket,
    *,
    log_level: str = "warning",
    certificate: tuple[str, str] | None = None,
) -> Iterator[None]:
    """Serve `app` on `listener` until the block ends; `certificate` and its key for TLS."""
    certfile, keyfile = certificate or (None, None)
    config = uvicorn.Config(
        app,
        log_level=log_level,
        ws="websockets-sansio",
        timeout_graceful_shutdown=0,
        ssl_certfile=certfile,
        ssl_keyfile=keyfile,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(60)
