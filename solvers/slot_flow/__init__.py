"""Requests as a flow through their local graphs, tick by tick: prices fix steps, and CP-SAT solves what they leave."""
