"""Recording of live sessions."""
