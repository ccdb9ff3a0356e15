"""The session objects that a worker thread uses: full-duplex, half-duplex and chat."""
