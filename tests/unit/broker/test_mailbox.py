from __future__ import annotations

import asyncio

from antiphon.broker.mailbox import Mailbox


async def test_items_arrive_in_their_order_whether_the_consumer_waits_or_not() -> None:
    box: Mailbox[int] = Mailbox()
    assert not box.put_nowait(1)
    assert not box.put_nowait(2)
    assert (list(box.items), box.empty()) == ([1, 2], False)
    assert [await box.get(), await box.get()] == [1, 2]
    waiting = asyncio.create_task(box.get())
    await asyncio.sleep(0)
    assert box.put_nowait(3), "it is awaited"
    assert not box.put_nowait(4), "only the item before it was"
    assert [await waiting, await box.get()] == [3, 4]
    assert box.empty()


async def test_a_consumer_that_is_cancelled_loses_no_item() -> None:
    box: Mailbox[int] = Mailbox()
    for put_before_cancel in (False, True):
        waiting = asyncio.create_task(box.get())
        await asyncio.sleep(0)
        if put_before_cancel:
            box.put_nowait(1)
        waiting.cancel()
        if not put_before_cancel:
            box.put_nowait(1)
        await asyncio.wait((waiting,))
        assert waiting.cancelled()
        assert await box.get() == 1
        assert not box.put_nowait(2), "nobody waits any more"
        assert await box.get() == 2
