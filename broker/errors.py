"""The errors of the broker, and what an operator can do about a Redis that cannot be used."""

import re

_URL = "ANTIPHON_REDIS_URL"
_LOGIN_FILE = "ANTIPHON_REDIS_PASSWORD_FILE"
_SENTINELS = "ANTIPHON_REDIS_SENTINEL_USER and ANTIPHON_REDIS_SENTINEL_PASSWORD_FILE"

_REMEDIES: tuple[tuple[str, str], ...] = (
    (
        "certificate is not valid for",
        "let the servers announce a name in their certificates (Cluster: cluster-announce-hostname "
        f"and cluster-preferred-endpoint-type), or add ssl_check_hostname=false to {_URL}",
    ),
    ("certificate has expired", "renew the certificate of the server"),
    (
        "certificate verify failed",
        f"correct ssl_ca_certs in {_URL}, or the certificates of the servers",
    ),
    (
        "certificate required|unknown ca|alert",
        f"add ssl_certfile and ssl_keyfile of a certificate that the server accepts to {_URL}",
    ),
    (
        "handshake|wrong version number|record layer failure",
        f"a server without TLS needs redis:// instead of rediss:// in {_URL}",
    ),
    (
        "connection to .* was lost|closed by server",
        f"a server with TLS needs rediss:// in {_URL}, and ssl_certfile and ssl_keyfile if it asks "
        "for a certificate",
    ),
    ("sentinel.*(no password is set|without any password)", f"remove {_SENTINELS}"),
    ("sentinel.*(refuses the login|permissions)", f"correct {_SENTINELS}"),
    (
        "without any password|no password is set",
        f"the server has no password: remove it from {_URL}, or remove {_LOGIN_FILE}",
    ),
    (
        "authentication required",
        f"write user:password@ after // in {_URL}, or name a file with the password ({_LOGIN_FILE})",
    ),
    ("refuses the login", f"correct the user and the password in {_URL}, or {_LOGIN_FILE}"),
    (
        "protected mode",
        "set requirepass on the server and name a file with the password here "
        f"({_LOGIN_FILE}), or let the server listen on a private network without protected-mode",
    ),
    (
        "permissions",
        "give the user the rights of docs/deployment.md (Managed Redis) with ACL SETUSER, on all servers",
    ),
    (
        "only '.*'|no such master",
        f"write the name after `sentinel monitor` behind the Sentinels in {_URL}",
    ),
    ("is not a sentinel", f"name Sentinels in {_URL}, or one server with redis://"),
    (
        "db index|not allowed in cluster mode|not an integer",
        f"write a database that the server has at the end of {_URL}; a cluster has only 0",
    ),
    ("number of clients", "raise maxclients, and the limit of open files of the Redis process"),
    (
        "maxmemory",
        "raise maxmemory of the server (redis-cli CONFIG SET maxmemory 2gb, and in redis.conf), or lower "
        "max_queue_size and the slots that share it",
    ),
    ("noreplicas", "start the replicas of the server, or lower its min-replicas-to-write"),
    (
        "misconf.*(rdb|snapshot)",
        "check the disk and the log on the Redis host, then redis-cli BGSAVE: the server takes writes "
        "again after a snapshot that succeeds",
    ),
    ("misconf", "check for a full or broken disk on the Redis host"),
    ("cluster is down|has the hash slot", "repair the cluster: redis-cli --cluster fix HOST:PORT"),
    (
        "replica of|link with master|read only replica",
        f"name the master in {_URL}, or use redis+sentinel:// or redis+cluster://",
    ),
    ("no address", f"correct the host in {_URL}, or the name service of this machine"),
    ("protocol error", f"another program listens there: name a Redis in {_URL}"),
    ("loading", "wait until the server has read its data"),
)


class BrokerError(Exception):
    """Base of the broker's errors."""

    @property
    def remedy(self) -> str | None:
        """What an operator can do; None if the text says nothing more than that Redis does not answer."""
        found = (remedy for text, remedy in _REMEDIES if re.search(text, str(self), re.IGNORECASE))
        return next(found, None)


class BrokerUnavailable(BrokerError):
    """Redis does not answer; the call may or may not have taken effect."""


class MasterChanged(BrokerUnavailable):
    """Another server than before takes the writes now; the command was not sent to it."""


class QueueFull(BrokerError):
    """The queue is at its limit, with `length` sessions."""

    def __init__(self, length: int) -> None:
        super().__init__(f"the queue is full ({length} sessions wait); try again later")


class TooManySessions(BrokerError):
    """One client has its maximum of sessions, `count`."""

    def __init__(self, count: int) -> None:
        super().__init__(f"this client has {count} sessions already; end one first")


class StoreFull(BrokerError):
    """Redis uses so much of its `maxmemory` that the rest is kept for the running sessions."""

    def __init__(self, share: float) -> None:
        super().__init__(f"the server's store is {share:.0%} full; try again later")


class SessionExists(BrokerError):
    """A live session already has this id."""

    def __init__(self, sid: str) -> None:
        super().__init__(f"session {sid!r} is live on another connection; choose a new id")


class VoicesFull(BrokerError):
    """The number of uploaded voices is at its limit."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"there are {limit} uploaded voices already; delete one first")


class SharesFull(BrokerError):
    """The share links of a recording are at their limit."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"this recording has {limit} share links already; revoke one first")


class StaleFence(BrokerError):
    """A newer process writes this stream, or the session is over: stop writing."""


class IncompatibleRedis(BrokerError):
    """This Redis cannot be used; the message says why and what to do."""


class BadPasswordFile(BrokerError):
    """The file with the Redis password cannot be used; the message names it."""
