"""The worker process: claims sessions, runs them on an engine, publishes the results."""
