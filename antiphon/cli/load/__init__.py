"""Load on an edge from many simulated users, and the report about it (`antiphon bench`)."""
