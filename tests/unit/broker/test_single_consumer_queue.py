import asyncio

from antiphon.broker.single_consumer_queue import SingleConsumerQueue


async def test_items_arrive_in_their_order_whether_the_consumer_waits_or_not() -> None:
    queue: SingleConsumerQueue[int] = SingleConsumerQueue()
    assert not queue.put_nowait(1)
    assert not queue.put_nowait(2)
    assert (list(queue.items), queue.empty()) == ([1, 2], False)
    assert [await queue.get(), await queue.get()] == [1, 2]
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    assert queue.put_nowait(3), "it is awaited"
    assert not queue.put_nowait(4), "only the item before it was"
    assert [await waiting, await queue.get()] == [3, 4]
    assert queue.empty()


async def test_a_consumer_that_is_cancelled_loses_no_item() -> None:
    queue: SingleConsumerQueue[int] = SingleConsumerQueue()
    for put_before_cancel in (False, True):
        waiting = asyncio.create_task(queue.get())
        await asyncio.sleep(0)
        if put_before_cancel:
            queue.put_nowait(1)
        waiting.cancel()
        if not put_before_cancel:
            queue.put_nowait(1)
        await asyncio.wait((waiting,))
        assert waiting.cancelled()
        assert await queue.get() == 1
        assert not queue.put_nowait(2), "nobody waits any more"
        assert await queue.get() == 2
