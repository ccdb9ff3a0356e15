"""The edge: one WebSocket per client, translated to and from the session's streams. Stateless."""
