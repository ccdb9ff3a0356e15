"""What a worker thread holds of a session: full-duplex, half-duplex or chat."""
