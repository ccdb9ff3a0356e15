"""An engine without a model, for load tests: it waits and answers with a tone."""
