"""The released engines' own scheduler classes beside our policies, batch by batch, on a CPU and without a model."""
