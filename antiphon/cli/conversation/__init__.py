"""One spoken conversation with an edge: audio, transcript and latency."""
