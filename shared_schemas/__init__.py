"""Typed records for everything that crosses a process or a wire. Performs no I/O."""
