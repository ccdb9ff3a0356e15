"""What the rules of the engine `local` know when they answer."""

from datetime import UTC, datetime

from antiphon.inference_worker.engines.local.rules.situation import Situation

NOW = Situation(datetime(2026, 11, 28, 14, 5, tzinfo=UTC), "1.2.3")
"""A Saturday; nothing has been said before."""
