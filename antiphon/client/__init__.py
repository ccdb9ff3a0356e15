"""Python SDK: typed asyncio clients for Antiphon's WebSockets."""
