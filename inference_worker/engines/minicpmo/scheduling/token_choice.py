"""Draws the next tokens of several sessions: the sampler in CUDA graphs, one for each number of rows, with
the recent tokens of all slots on the device.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import structlog
import torch
from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.device import device_tensor
from antiphon.inference_worker.engines.minicpmo.scheduling.cuda_graphs import GraphPool, bucket
from antiphon.inference_worker.engines.minicpmo.scheduling.sampler import (
    ANY_RANK,
    SampledToken,
    Sampler,
    SamplingSettings,
    candidate_count,
)
from antiphon.inference_worker.engines.types import EngineError

log = structlog.get_logger()


class RecentTokens:
    """The last tokens of a session, at most `limit`, and how they changed since the last draw."""

    def __init__(self, tokens: Iterable[int] = (), limit: int | None = None) -> None:
        self._tokens = deque[int]()
        self._limit = limit
        self._added, self._dropped = list[int](), list[int]()
        self.extend(tokens)

    def __iter__(self) -> Iterator[int]:
        return iter(self._tokens)

    def __len__(self) -> int:
        return len(self._tokens)

    def append(self, token: int) -> None:
        self._tokens.append(token)
        self._added.append(token)
        if self._limit is not None:
            self.shorten(self._limit)

    def extend(self, tokens: Iterable[int]) -> None:
        for token in tokens:
            self.append(token)

    def shorten(self, length: int) -> None:
        """Drop the oldest tokens until there are at most `length`."""
        while len(self._tokens) > length:
            self._dropped.append(self._tokens.popleft())

    def take_changes(self) -> tuple[list[int], list[int]]:
        """The tokens that were added and those that were dropped since the last call."""
        changes = self._added, self._dropped
        self._added, self._dropped = [], []
        return changes


@dataclass(frozen=True, slots=True)
class TokenRow:
    """Input of one draw: settings, the tokens that the repetition penalty counts, the slot, and two
    uniform draws in [0, 1).

    `written`: a token of a written answer, by plain sampling, not of a duplex unit.
    """

    settings: SamplingSettings
    recent: RecentTokens
    slot: int = 0
    draws: tuple[float, float] = (0.0, 0.0)
    written: bool = False


_NO_ROW = TokenRow(SamplingSettings(), RecentTokens())
"""Fills the rows of a batch that no session uses."""


class TokenHistory:
    """Counts of the recent tokens of every slot, (slots, vocabulary), on the device.

    A draw adds one token, and drops one that leaves the window. Only these changes are sent. The
    tokens of a session that is new in its slot are sent whole.
    """

    def __init__(self, slots: int, vocabulary: int, device: torch.device) -> None:
        self._vocabulary = vocabulary
        self._device = device
        self._counts = torch.zeros(slots, vocabulary, dtype=torch.int32, device=device)
        self._owners: dict[int, RecentTokens] = {}

    def changes(self, rows: Sequence[tuple[int, RecentTokens]], count: int) -> Tensor:
        """The slots of `rows` and the changes that `said` applies: (5, count), with rows of slot 0 as
        padding. Each of `rows` has its own slot.

        Of the five, two are places in the counts, and two the amounts that are added there. Further
        changes are applied at once.
        """
        renewed, places, amounts = list[int](), list[int](), list[int]()
        for slot, recent in rows:
            added, dropped = recent.take_changes()
            if self._owners.get(slot) is not recent:
                self._owners[slot] = recent
                renewed.append(slot)
                added, dropped = list(recent), []
            first = slot * self._vocabulary
            places += [first + token for token in (*added, *dropped)]
            amounts += [1] * len(added) + [-1] * len(dropped)
        if renewed:
            self._counts.index_fill_(0, device_tensor(renewed, self._device), 0)
        room = 2 * count
        if len(places) > room:
            more = device_tensor([*places[room:], *amounts[room:]], self._device)
            self._add(*more.view(2, -1))
        padding = [0] * max(0, room - len(places))
        slots = [slot for slot, _ in rows] + [0] * (count - len(rows))
        table = [*slots, *places[:room], *padding, *amounts[:room], *padding]
        return device_tensor(table, self._device).view(5, count)

    def forget(self, slots: Iterable[int]) -> None:
        """Send the tokens of these slots whole the next time."""
        for slot in slots:
            self._owners.pop(slot, None)

    def said(self, changes: Tensor) -> Tensor:
        """Apply `changes`; true for each token that the penalty applies to, (rows, vocabulary)."""
        slots, places, amounts = torch.split(changes, [1, 2, 2])
        self._add(places.flatten(), amounts.flatten())
        return self._counts.index_select(0, slots.flatten()) > 0

    def _add(self, places: Tensor, amounts: Tensor) -> None:
        self._counts.view(-1).index_add_(0, places, amounts.to(self._counts.dtype))


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
        try:
            changes = self._history.changes([(row.slot, row.recent) for row in rows], count)
            groups = self._by_candidates(rows)
            if list(groups) != [self._usual]:
                return self._in_groups(groups, logits, settings, self._history.said(changes))
            return self._graphs.run((self, count), (logits, settings, changes), self._choose)
        except BaseException:
            self._history.forget(row.slot for row in rows)  # whether it has the changes, is unknown
            raise

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


def settings_table(rows: Sequence[TokenRow], device: torch.device) -> Tensor:
    """The RowSettings of `rows`, (settings, rows), in one copy."""
    numbers = list[float]()
    for row in rows:
        numbers += _numbers(row.settings)
        numbers += row.draws
    return device_tensor(numbers, device, torch.float32).view(len(rows), -1).T


@lru_cache(maxsize=1024)
def _numbers(settings: SamplingSettings) -> tuple[float, ...]:
    return (
        float(settings.greedy),
        settings.temperature or 1.0,
        settings.top_k - 1 if settings.top_k else ANY_RANK,
        settings.top_p or 2.0,
        settings.listen_prob_scale,
        settings.listen_top_k or 0,
        settings.repetition_penalty,
        settings.length_penalty,
        float(settings.speakable),
    )
