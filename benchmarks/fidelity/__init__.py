"""What the papers report of their schedulers, beside what they do here: `python -m benchmarks.fidelity`."""
