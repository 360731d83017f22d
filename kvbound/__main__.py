"""`python -m kvbound`."""

from kvbound.cli import main

main()
