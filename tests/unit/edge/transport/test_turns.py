from __future__ import annotations

import asyncio
from itertools import pairwise

from antiphon.edge.transport.turns import PER_TURN, TurnQueue


async def test_a_turn_of_the_loop_has_a_bounded_number_of_callbacks_in_their_order() -> None:
    loop, queue = asyncio.get_running_loop(), TurnQueue()
    turn, called = 0, list[tuple[int, int]]()

    def count_turns() -> None:
        nonlocal turn
        turn += 1
        if len(called) < 26:
            loop.call_soon(count_turns)

    def callback(number: int) -> None:
        called.append((turn, number))
        if number < 6:
            queue.add(lambda: callback(20 + number))  # waits behind the others

    loop.call_soon(count_turns)
    for number in range(20):
        queue.add(lambda number=number: callback(number))  # type: ignore[misc]
    while len(called) < 26:
        await asyncio.sleep(0)
    assert [number for _, number in called] == list(range(26))
    turns = [at for at, _ in called]
    assert max(map(turns.count, turns)) <= PER_TURN
    assert all(0 <= after - before <= 1 for before, after in pairwise(turns))


async def test_an_error_in_a_callback_stops_no_other() -> None:
    queue, done, errors = TurnQueue(), asyncio.Event(), list[object]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    queue.add(lambda: 1 // 0)  # type: ignore[arg-type, return-value]
    for _ in range(PER_TURN):
        queue.add(lambda: None)
    queue.add(done.set)
    async with asyncio.timeout(30):
        await done.wait()
    assert len(errors) == 1
