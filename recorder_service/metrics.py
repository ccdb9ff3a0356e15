"""The metrics of one recorder."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_LAG_BOUNDS_S = (
    *(0.005, 0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75),
    *(1.0, 2.0, 5.0, 10.0, 30.0, 60.0),
)
_NAME = "antiphon_recorder_"


class RecorderMetrics:
    """Counters and gauges since the recorder's start.

    `degraded` sessions are behind because the disk refuses writes. `disk_errors` includes repeats.
    `disk_error`: why the folder of the recordings cannot be used since the start, '' if it can.
    `declined` sessions asked not to be recorded, or ended before they asked for anything.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        registry = CollectorRegistry() if registry is None else registry
        self.registry = registry
        self.sessions = 0
        self.degraded = 0
        self.disk_error = ""
        self.merges_waiting = 0

        def gauge(name: str, text: str, value: Callable[[], int]) -> None:
            Gauge(_NAME + name, text, registry=registry).set_function(value)

        def counter(name: str, text: str, labels: tuple[str, ...] = ()) -> Counter:
            return Counter(_NAME + name, text, labels, registry=registry)

        gauge("sessions", "Sessions that this recorder records.", lambda: self.sessions)
        gauge(
            "degraded_sessions", "Of these, behind because the disk fails.", lambda: self.degraded
        )
        gauge("merges_waiting", "Replays that wait to be made.", lambda: self.merges_waiting)
        self.entries = counter("entries", "Entries written to disk.")
        self.disk_errors = counter("disk_errors", "Writes that the disk refused, with repeats.")
        self.declined = counter(
            "declined_sessions", "Not recorded: asked not to be, or asked for nothing."
        )
        self.merged_seconds = counter("replay_seconds", "Length of the replays made.")
        recordings = counter("recordings", "Recordings finished, by state.", ("state",))
        self.complete = recordings.labels("complete")
        self.interrupted = recordings.labels("interrupted")
        self.set_aside = recordings.labels("set_aside")
        merges = counter("merges", "Replays made or failed.", ("outcome",))
        self.merges_done = merges.labels("done")
        self.merges_failed = merges.labels("failed")
        self.lag = Histogram(
            _NAME + "lag_seconds",
            "From an entry's append to Redis to its being on disk.",
            buckets=_LAG_BOUNDS_S,
            registry=registry,
        )
