"""Fixtures: the tiny checkpoint, loaded once. All tests here need torch."""

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

MISSING = [name for name in ("torch", "transformers") if importlib.util.find_spec(name) is None]

if MISSING and not os.environ.get("CI"):
    collect_ignore_glob = ["test_*.py", "*/test_*.py"]
else:
    import torch

    from antiphon.inference_worker.engines.minicpmo.config import EngineOptions
    from antiphon.inference_worker.engines.minicpmo.conversations.slot_lease import SlotLease
    from antiphon.inference_worker.engines.minicpmo.model.load import load_network
    from antiphon.inference_worker.engines.minicpmo.model.network import MiniCPMO
    from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
    from support.minicpmo.golden_set import CHECKPOINT

    torch.set_num_threads(1)

    @pytest.fixture(scope="session")
    def network() -> MiniCPMO:
        return load_network(CHECKPOINT, EngineOptions(device="cpu"), lambda _line: None)

    @pytest.fixture(scope="session")
    def tokenizer() -> Tokenizer:
        return Tokenizer(CHECKPOINT)

    @pytest.fixture(scope="session")
    def compiler_cache(
        pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[Path]:
        """Where Triton keeps compiled programs: in pytest's cache, so that only new ones are compiled."""
        cache = getattr(pytestconfig, "cache", None)
        folder = cache.mkdir("triton") if cache else tmp_path_factory.mktemp("triton")
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("TRITON_CACHE_DIR", str(folder))
            yield folder

    @pytest.fixture
    def releases_slots(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """For tests that share an engine: a test that fails leaves no slot taken."""
        leases, create = list[SlotLease](), SlotLease.__init__

        def recorded(lease: SlotLease, *given: Any, **named: Any) -> None:
            create(lease, *given, **named)
            leases.append(lease)

        monkeypatch.setattr(SlotLease, "__init__", recorded)
        yield
        for lease in leases:
            lease.close()
