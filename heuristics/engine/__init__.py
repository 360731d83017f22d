"""The engine: runs a policy batch by batch under the referee, and what policies are built from."""
