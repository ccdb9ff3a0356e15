import asyncio

from support.edge_harness import RunningEdge


async def test_connections_at_once_are_all_answered(edge: RunningEdge) -> None:
    async def status() -> int:
        async with edge.http() as http:
            return (await http.get("/health")).status_code

    assert set(await asyncio.gather(*(status() for _ in range(50)))) == {200}
