"""Requests as a flow through their local graphs, tick by tick: prices fix steps, CP-SAT solves the rest."""
