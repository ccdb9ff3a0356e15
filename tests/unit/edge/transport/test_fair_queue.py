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
    async with asyncio.timeout(90):
        await done.wait()
    assert len(errors) == 1


async def test_a_request_does_not_wait_for_all_connections_that_begin() -> None:
    queue, called = FairQueue(), list[str]()
    for _ in range(500):
        queue.add(lambda: called.append("connection"))
    for number in range(3):
        queue.add(lambda number=number: called.append(str(number)), request=True)  # type: ignore[misc]
    while len(called) < 503:
        await asyncio.sleep(0)
    requests = [name for name in called if name != "connection"]
    assert requests == ["0", "1", "2"]
    assert called.index("2") < 2 * len(requests)
