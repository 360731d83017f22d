"""The engine, and what policies are built from."""
