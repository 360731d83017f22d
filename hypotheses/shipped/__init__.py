"""The hypotheses of kvbound: a question a file, with one or several claims."""
