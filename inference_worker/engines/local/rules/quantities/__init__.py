"""Numbers, sums, units, distances, the clock and the calendar, asked in words."""
