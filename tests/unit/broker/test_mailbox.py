from __future__ import annotations

import asyncio

from antiphon.broker.mailbox import Mailbox


async def test_items_arrive_in_their_order_whether_the_consumer_waits_or_not() -> None:
    box: Mailbox[int] = Mailbox()
    box.put_nowait(1)
    box.put_nowait(2)
    assert (len(box), box.empty(), box.awaited) == (2, False, False)
    assert [await box.get(), await box.get()] == [1, 2]
    waiting = asyncio.create_task(box.get())
    await asyncio.sleep(0)
    assert box.awaited
    box.put_nowait(3)
    assert not box.awaited, "the item after it is not expected"
    box.put_nowait(4)
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
        assert not box.awaited
        assert await box.get() == 1
