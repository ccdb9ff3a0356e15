"""The built pages as they lie in `edge/pages/`: read once, sent from memory."""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

NOT_BUILT = """The pages of this server have not been built.

In a checkout, run:                 make web
With pip, install it from there:    pip install .

Its protocols and its API work without them.
"""

_COMPRESSED = ".br"
_HASHED = "static/"
_TYPES = {".js": "text/javascript", ".woff2": "font/woff2", ".wasm": "application/wasm"}


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file of the build. `brotli` is the same, compressed; None where that gains nothing."""

    media_type: str
    body: bytes
    brotli: bytes | None
    etag: str
    immutable: bool

    def headers(self, *, compressed: bool) -> dict[str, str]:
        """A name with a hash in it never changes its meaning; all others are asked for anew."""
        lasting = "public, max-age=31536000, immutable" if self.immutable else "no-cache"
        headers = {"Cache-Control": lasting, "ETag": self.etag, "Vary": "Accept-Encoding"}
        return headers | ({"Content-Encoding": "br"} if compressed else {})


@cache
def load_site(folder: Path) -> Mapping[str, PageFile]:
    """By path below `folder`; empty where nothing was built. Blocks: call it in a thread."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {
        path.relative_to(folder).as_posix(): _read(path, path.relative_to(folder).as_posix())
        for path in files
        if path.suffix != _COMPRESSED and not path.name.startswith(".")
    }


def _read(path: Path, name: str) -> PageFile:
    body = path.read_bytes()
    beside = path.with_name(path.name + _COMPRESSED)
    return PageFile(
        media_type=_TYPES.get(path.suffix) or mimetypes.guess_type(name)[0] or "text/plain",
        body=body,
        brotli=beside.read_bytes() if beside.exists() else None,
        etag=f'"{hashlib.sha256(body).hexdigest()[:20]}"',
        immutable=name.startswith(_HASHED),
    )
