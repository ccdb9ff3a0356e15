"""A worker and the client of one session of the kind that a module tests."""

from functools import partial

import pytest

from antiphon.broker.client import Broker
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.states import SessionKind
from support.worker_harness import OpenSession, open_worker_session


@pytest.fixture
def open_session(
    broker: Broker, settings: BrokerSettings, request: pytest.FixtureRequest
) -> OpenSession:
    kind = getattr(request.module, "KIND", SessionKind.AUDIO_DUPLEX)
    return partial(open_worker_session, broker, settings, kind)
