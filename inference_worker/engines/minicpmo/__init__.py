"""MiniCPM-o 4.5: loads the official checkpoint and serves many sessions in one batch."""
