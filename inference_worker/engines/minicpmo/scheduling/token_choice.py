"""Draws the next tokens of several sessions: the sampler in CUDA graphs, one for each number of rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import structlog
import torch
from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.device import device_tensor
from antiphon.inference_worker.engines.minicpmo.scheduling.cuda_graphs import GraphPool
from antiphon.inference_worker.engines.minicpmo.scheduling.sampler import (
    Sampler,
    candidate_count,
    settings_table,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import (
    SampledToken,
    SamplingSettings,
    TokenRow,
    bucket,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.token_history import (
    RecentTokens,
    TokenHistory,
)
from antiphon.inference_worker.engines.types import EngineError

log = structlog.get_logger()

_NO_ROW = TokenRow(SamplingSettings(), RecentTokens())
"""Fills the rows of a batch that no session uses."""


class TokenChoice:
    """A sampler with the recent tokens of `slots` sessions.

    A batch is padded to a power of two, or to all slots. It is one graph if `graphs` are enabled and
    its rows have the usual number of candidates: without top-k, the whole vocabulary is sorted, and
    no graph holds that much memory.
    """

    def __init__(
        self,
        sampler: Sampler,
        graphs: GraphPool,
        *,
        slots: int,
        vocabulary: int,
        device: torch.device,
    ) -> None:
        self._sampler = sampler
        self._graphs = graphs
        self._slots = slots
        self._vocabulary = vocabulary
        self._device = device
        self._usual = candidate_count(1, vocabulary)
        self._history = TokenHistory(slots, vocabulary, device)

    def start(self, logits: Tensor, rows: Sequence[TokenRow]) -> Tensor:
        """Draw a token for each row of `logits` (rows, vocabulary), without waiting for the device;
        returns the table that `read` reads.
        """
        count = min(self._slots, bucket(len(rows)))
        padding = count - len(rows)
        if padding:
            logits = torch.cat([logits, logits[-1:].expand(padding, -1)])
        settings = settings_table([*rows, *[_NO_ROW] * padding], self._device)
        changes = self._history.changes([(row.slot, row.recent) for row in rows], count)
        groups = self._by_candidates(rows)
        if list(groups) != [self._usual]:
            return self._in_groups(groups, logits, settings, self._history.said(changes))
        return self._graphs.run((self, count), (logits, settings, changes), self._choose)

    def read(self, table: Tensor, rows: Sequence[TokenRow]) -> list[SampledToken | EngineError]:
        """The tokens of `rows`; an exception for a row that is not finite. Waits for the device."""
        return self._sampler.read(table.tolist(), rows)

    def capture(self) -> int:
        """Capture a draw for each number of rows; returns how many. If a capture fails, draws run
        without graphs.
        """
        counts = sorted({min(self._slots, bucket(n + 1)) for n in range(self._slots)}, reverse=True)
        # Graphs of fewer rows read a part of the same memory.
        logits = torch.zeros(self._slots, self._vocabulary, device=self._device)
        try:
            # The largest first: all others fit into the memory that it reserves.
            for count in counts:
                settings = settings_table([_NO_ROW] * count, self._device)
                changes = self._history.changes([], count)
                inputs = logits[:count], settings, changes
                self._graphs.capture((self, count), inputs, self._choose)
        except Exception as error:  # noqa: BLE001  # draws work without graphs
            log.warning(
                "token_graphs_off", reason=str(error), consequence="a token takes more launches"
            )
            for count in counts:
                self._graphs.drop((self, count))
            return 0
        return len(counts)

    def _choose(self, logits: Tensor, settings: Tensor, changes: Tensor) -> Tensor:
        return self._sampler.choose(logits, settings, self._history.said(changes), self._usual)

    def _by_candidates(self, rows: Sequence[TokenRow]) -> dict[int, list[int]]:
        groups = defaultdict[int, list[int]](list)
        for index, row in enumerate(rows):
            top_k = 1 if row.settings.greedy else row.settings.top_k
            groups[candidate_count(top_k, self._vocabulary)].append(index)
        return groups

    def _in_groups(
        self, groups: dict[int, list[int]], logits: Tensor, settings: Tensor, said: Tensor
    ) -> Tensor:
        """Rows with equal candidate counts draw together, so the result of a row does not depend on
        the others.
        """
        table = torch.zeros(
            4, sum(map(len, groups.values())), dtype=torch.long, device=self._device
        )
        for count, members in groups.items():
            places = device_tensor(members, self._device)
            table[:, places] = self._sampler.choose(
                logits[places], settings[:, places], said[places], count
            )
        return table
