"""Random faults under load: a plan from a seed, the processes it affects, clients, and the invariants."""
