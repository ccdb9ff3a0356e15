"""OpenAI's Realtime API (GA): turns, with the messages of `/v1/realtime` that its SDKs send."""
