"""Lagrangian branch and bound: prices on memory and budgets, slot by slot; each request finds its path on its own."""
