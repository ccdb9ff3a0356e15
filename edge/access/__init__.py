"""Who may connect to an edge, and how much one client may take."""
