"""Reductions as programs: each takes any valid schedule and returns one of the reduced space that is no worse.

The referee judges what they return (`test_reductions.py`). docs/trust.md lists what each is a reduction of.
"""
