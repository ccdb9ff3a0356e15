from __future__ import annotations

import asyncio
from itertools import pairwise

from antiphon.edge.transport.fair_queue import PER_ITERATION, FairQueue


async def test_an_iteration_of_the_loop_has_a_bounded_number_of_callbacks_in_their_order() -> None:
    loop, queue = asyncio.get_running_loop(), FairQueue()
    iteration, called = 0, list[tuple[int, int]]()

    def count_iterations() -> None:
        nonlocal iteration
        iteration += 1
        if len(called) < 26:
            loop.call_soon(count_iterations)

    def callback(number: int) -> None:
        called.append((iteration, number))
        if number < 6:
            queue.add(lambda: callback(20 + number))  # waits behind the others

    loop.call_soon(count_iterations)
    for number in range(20):
        queue.add(lambda number=number: callback(number))  # type: ignore[misc]
    while len(called) < 26:
        await asyncio.sleep(0)
    assert [number for _, number in called] == list(range(26))
    iterations = [at for at, _ in called]
    assert max(map(iterations.count, iterations)) <= PER_ITERATION
    assert all(0 <= after - before <= 1 for before, after in pairwise(iterations))


async def test_an_error_in_a_callback_stops_no_other() -> None:
    queue, done, errors = FairQueue(), asyncio.Event(), list[object]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    queue.add(lambda: 1 // 0)  # type: ignore[arg-type, return-value]
    for _ in range(PER_ITERATION):
        queue.add(lambda: None)
    queue.add(done.set)
    async with asyncio.timeout(30):
        await done.wait()
    assert len(errors) == 1
