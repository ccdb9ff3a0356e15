"""What every service shares: logs, metrics, traces, the status port, signals."""
