"""The policies, a file for each paper or engine."""
