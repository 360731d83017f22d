"""Lagrange prices on memory and budgets, slot by slot; what they leave open is a constraint program over paths."""
