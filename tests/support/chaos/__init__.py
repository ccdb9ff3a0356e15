"""Random faults under load: a plan from a seed, the processes it strikes, clients, and the invariants."""
