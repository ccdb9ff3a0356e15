"""What engines can do, from the rows of their workers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from antiphon.edge.routes.models import Capabilities, EngineCapabilities
from antiphon.shared_schemas.registry import WorkerRow


def capabilities_of(workers: Iterable[WorkerRow]) -> Capabilities:
    """What any of these workers can do."""
    same: dict[tuple[object, ...], list[WorkerRow]] = {}
    for worker in workers:
        key = (worker.engine, worker.model, worker.kinds, worker.abilities)
        same.setdefault(key, []).append(worker)
    engines = sorted(map(_engine, same.values()), key=lambda one: (one.model, one.engine))
    talking = [one for one in engines if any(kind.is_duplex for kind in one.kinds)]
    return Capabilities(
        model=", ".join(dict.fromkeys(one.model for one in engines)) or None,
        engines=engines,
        kinds=sorted({kind for one in engines for kind in one.kinds}),
        hears=_all_languages([one.hears for one in engines]),
        speaks=_all_languages([one.speaks for one in engines]),
        sees=any(one.sees for one in engines),
        clones_voices=any(one.clones_voices for one in engines),
        calls_tools=any(one.calls_tools for one in engines),
        greets=bool(talking) and all(one.greets for one in talking),
        simulated=bool(engines) and all(one.simulated for one in engines),
    )


def _engine(workers: Sequence[WorkerRow]) -> EngineCapabilities:
    """`workers` run the same engine with the same model."""
    [first, *_] = workers
    able = first.abilities
    return EngineCapabilities(
        engine=first.engine,
        model=first.model,
        workers=len(workers),
        kinds=sorted(first.kinds),
        hears=list(able.hears),
        speaks=list(able.speaks),
        sees=able.sees,
        clones_voices=able.clones_voices,
        calls_tools=able.calls_tools,
        greets=able.greets,
        simulated=able.simulated,
    )


def _all_languages(known: Sequence[Sequence[str]]) -> list[str]:
    """The union; empty if the languages of one engine are not known."""
    return sorted({code for codes in known for code in codes}) if all(known) else []
