"""Random cases, for hours: every part of the project against what must hold of it (`docs/trust.md`).

`python -m tests.fuzz --hours H --seed S`. A case is made from the seed, the part and a number, and from nothing else;
its work is limited by counts, never by seconds. What is found is made smaller and written as a file.
"""
