"""`antiphon replay`: a recorded session once more, against a running stack, and what differs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from antiphon.cli.inspection import Json
from antiphon.cli.recordings import DataDir, SessionArgument
from antiphon.cli.talk import DEFAULT_URL, PATIENCE_S, ApiKey, fail

if TYPE_CHECKING:
    from antiphon.cli.comparison import Pair
    from antiphon.cli.stored import Stored

_CANNOT = 2


def replay(
    session: SessionArgument,
    url: Annotated[str, typer.Option(help="The edge to play it to.")] = DEFAULT_URL,
    fast: Annotated[
        bool, typer.Option("--fast", help="Send as soon as the last second was answered.")
    ] = False,
    decisions: Annotated[
        float,
        typer.Option(help="Share of listen-or-speak decisions that must agree.", min=0, max=1),
    ] = 0.9,
    text: Annotated[
        float, typer.Option(help="Share of words that must agree.", min=0, max=1)
    ] = 0.8,
    slower: Annotated[
        float, typer.Option(help="How many times slower the median unit may be.", min=0)
    ] = 2.0,
    every: Annotated[bool, typer.Option("--all", help="Show what agrees, too.")] = False,
    as_json: Json = False,
    patience: Annotated[
        float, typer.Option(help="Seconds to wait for an answer before going on.", min=1)
    ] = PATIENCE_S,
    api_key: ApiKey = None,
    data_dir: DataDir = None,
) -> None:
    """Play a recorded session's sound again and compare decisions, words and latency.

    Ends with 0 when all is within the tolerances, 1 when not, 2 when it could not be played.
    """
    import asyncio

    from antiphon.cli.comparison import Tolerance, compare
    from antiphon.cli.replay_view import print_comparison, print_json
    from antiphon.cli.replaying import ReplayFailed
    from antiphon.cli.stored import NotStored, find, load
    from antiphon.client.errors import ClientError

    tolerance = Tolerance(decisions=decisions, text=text, slower=slower)
    try:
        stored = load(find(session, data_dir))
        pairs = asyncio.run(play(stored, url, fast=fast, patience_s=patience, api_key=api_key))
    except (NotStored, ClientError, ReplayFailed) as error:
        fail(str(error), status=_CANNOT)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    verdict = compare(pairs, tolerance)
    if as_json:
        print_json(stored.meta.recording_id, url, pairs, verdict)
    else:
        print_comparison(pairs, verdict, every=every)
    raise typer.Exit(1 if verdict.differs else 0)


async def play(
    stored: Stored, url: str, *, fast: bool, patience_s: float, api_key: str | None
) -> list[Pair]:
    """Whatever kind it is, with what came of it then and now. Raises NotStored, ClientError."""
    from antiphon.cli.replaying import replay as replay_duplex
    from antiphon.cli.score import score_of
    from antiphon.cli.turn_replaying import replay_chat, replay_half_duplex
    from antiphon.cli.turn_score import chat_score, half_duplex_score
    from antiphon.shared_schemas.recording import Recording

    how: dict[str, Any] = {"patience_s": patience_s, "api_key": api_key}
    recording = stored.whole
    if isinstance(recording, Recording):
        return await replay_duplex(score_of(stored.folder, recording), url, fast=fast, **how)
    if recording.mode == "chat":
        return await replay_chat(chat_score(stored.folder, recording), url, **how)
    score = half_duplex_score(stored.folder, recording)
    return await replay_half_duplex(score, url, fast=fast, **how)
