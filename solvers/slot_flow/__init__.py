"""Requests as a flow through their local graphs: prices fix steps, CP-SAT solves the rest."""
