"""What a conversation is: no torch, no Redis, no asyncio."""
