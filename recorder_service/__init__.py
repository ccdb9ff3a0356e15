"""The recorder: reads every session's streams and writes its directory."""
