"""The rights of a Redis user as docs/deployment.md gives them."""

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from redis import Redis

ROOT = Path(__file__).parents[2]
_ABOUT_THE_CLIENT = (b"client|setinfo", b"client")
"""redis-py tells a server its version, and accepts a refusal. Redis 6.2 logs no subcommand."""


def documented_rules() -> list[str]:
    """What follows `ACL SETUSER antiphon`."""
    document = (ROOT / "docs" / "deployment.md").read_text()
    _, _, rest = document.partition("redis-cli ACL SETUSER antiphon ")
    return shlex.split(rest.partition("```")[0].replace("\\\n", " "))


@contextmanager
def user_of(url: str, prefix: str) -> Iterator[str]:
    """The URL of a user with these rights for the keys of a prefix."""
    rules = [re.sub("antiphon", prefix, rule) for rule in documented_rules()]
    with Redis.from_url(url, protocol=2) as redis:
        redis.execute_command("ACL", "SETUSER", prefix, *rules)
        redis.execute_command("ACL", "LOG", "RESET")
        yield url.replace("redis://", f"redis://{prefix}:PASSWORD@")
        redis.execute_command("ACL", "DELUSER", prefix)


def refused(url: str) -> list[bytes]:
    """The commands and keys that the server has refused."""
    parts = urlsplit(url)
    with Redis(host=str(parts.hostname), port=int(parts.port or 0), protocol=2) as redis:
        log = redis.execute_command("ACL", "LOG")
    entries = [dict(zip(entry[::2], entry[1::2], strict=True)) for entry in log]
    return [entry[b"object"] for entry in entries if entry[b"object"] not in _ABOUT_THE_CLIENT]
