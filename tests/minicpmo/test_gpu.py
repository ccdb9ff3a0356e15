"""What only a GPU can tell; skipped without one."""

import pytest
import torch
from minicpmo import golden_set
from minicpmo.golden_set import CHECKPOINT

from inference_worker.engines.minicpmo.config import EngineOptions
from inference_worker.engines.minicpmo.processor import MiniCPMOProcessor
from inference_worker.engines.minicpmo.steps import Feed
from shared_schemas.config import DuplexConfig

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
GREEDY = DuplexConfig(generate_audio=False, temperature=0.0, force_listen_count=0)


def conversation(*, cuda_graphs: bool) -> list[tuple[bool, str, int]]:
    options = EngineOptions(
        slots=2, context_tokens=512, speech_tokens=256, device="cuda", cuda_graphs=cuda_graphs
    )
    engine = MiniCPMOProcessor(CHECKPOINT, options)
    engine.load(lambda _line: None)
    view, wave = engine.set_duplex_mode(), golden_set.waves()["w_duplex_audio"]
    view.prepare("Streaming Omni Conversation.", GREEDY)
    said = []
    for n in range(6):
        view.prefill(wave[n * 16000 : (n + 1) * 16000])
        result = view.generate()
        view.finalize()
        said.append((result.is_listen, result.text, view.kv_cache_length))
    view.cleanup()
    assert engine._parts is not None
    assert engine.memory().used > 0
    graphs = engine._parts.engine._runner.graphs
    assert (graphs.replayed > 0) == cuda_graphs
    assert graphs.eager == 0
    engine.close()
    return said


def test_graphs_change_nothing() -> None:
    assert conversation(cuda_graphs=True) == conversation(cuda_graphs=False)


def test_feeding_waits_for_nothing() -> None:
    """What test_host_waits.py counts on a CPU, by the device's own account."""
    options = EngineOptions(slots=2, context_tokens=512, speech_tokens=256, device="cuda")
    engine = MiniCPMOProcessor(CHECKPOINT, options)
    engine.load(lambda _line: None)
    assert engine._parts is not None
    runner = engine._parts.engine._runner
    torch.cuda.set_sync_debug_mode("error")
    try:
        for tokens in (1, 5):
            runner.run([Feed(slot, 3, ((7,) * tokens,)) for slot in range(2)])
    finally:
        torch.cuda.set_sync_debug_mode("default")
    engine.close()
