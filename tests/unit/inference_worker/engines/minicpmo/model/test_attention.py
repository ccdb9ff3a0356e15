"""The slotted cache: dropping a span from the middle, clearing a slot."""

import pytest
import torch
from torch.testing import assert_close

from antiphon.inference_worker.engines.minicpmo.model import kv_cache
from antiphon.inference_worker.engines.minicpmo.model.kv_cache import SlottedCache
from antiphon.inference_worker.engines.minicpmo.model.network import MiniCPMO
from support.minicpmo import golden_set


def cache_of(network: MiniCPMO, layers: int = 2, slots: int = 3) -> SlottedCache:
    return SlottedCache(
        layers=layers,
        slots=slots,
        positions=32,
        heads=network.config.num_key_value_heads,
        head_dim=network.config.head_dim,
        device=torch.device("cpu"),
        dtype=torch.float32,
    )


def test_dropping_a_span_rotates_the_keys_behind_it(network: MiniCPMO) -> None:
    want, facts = golden_set.tensors("g_cache_drop"), golden_set.facts("g_cache_drop")["drop"]
    cache, slot = cache_of(network), 1
    for layer in range(2):
        cache.keys[layer][slot, :20] = want[f"drop.before.key{layer}"].transpose(0, 1)
        cache.values[layer][slot, :20] = want[f"drop.before.value{layer}"].transpose(0, 1)
    keep, gone, total = facts["preserve"], facts["length"], facts["total"]
    inv_freq = network.llm.model.inv_freq
    cache.shift(slot, keep + gone, keep, total - keep - gone, inv_freq)
    left = facts["new_len"]
    for layer in range(2):
        keys = cache.keys[layer][slot, :left].transpose(0, 1)
        values = cache.values[layer][slot, :left].transpose(0, 1)
        assert_close(keys, want[f"drop.after.key{layer}"], atol=1e-4, rtol=1e-4)
        assert_close(values, want[f"drop.after.value{layer}"], atol=1e-4, rtol=1e-4)


def test_shifting_back_and_forth_changes_nothing(network: MiniCPMO) -> None:
    cache = cache_of(network)
    for tensor in (*cache.keys, *cache.values):
        tensor.normal_(generator=torch.Generator().manual_seed(1))
    before = cache.keys[0][0, 4:12].clone()
    inv_freq = network.llm.model.inv_freq
    cache.shift(0, 4, 9, 8, inv_freq)
    cache.shift(0, 9, 4, 8, inv_freq)
    assert_close(cache.keys[0][0, 4:12], before)


def test_any_number_of_layers_is_shifted_at_a_time(
    network: MiniCPMO, monkeypatch: pytest.MonkeyPatch
) -> None:
    caches = list[SlottedCache]()
    for values in (2**23, 1):
        monkeypatch.setattr(kv_cache, "SHIFTED_VALUES", values)
        caches.append(cache_of(network, layers=3))
        for tensor in caches[-1].entries:
            tensor.normal_(generator=torch.Generator().manual_seed(1))
        caches[-1].shift(1, 6, 4, 20, network.llm.model.inv_freq)
    for one, other in zip(*(cache.entries for cache in caches), strict=True):
        assert torch.equal(one, other)


def test_clearing_a_slot_leaves_the_others(network: MiniCPMO) -> None:
    cache = cache_of(network)
    for tensor in (*cache.keys, *cache.values):
        tensor.fill_(1.0)
    cache.keys[0][1, 3] = float("nan")
    cache.clear(1)
    assert all(t[1].eq(0).all() for t in (*cache.keys, *cache.values))
    assert all(t[[0, 2]].eq(1).all() for t in (*cache.keys, *cache.values))
