"""Calls by WebRTC: the transport of OpenAI's Realtime API with sound on a track and events on a data channel.

Only this package imports `aiortc`, which is the extra `webrtc`.
"""
