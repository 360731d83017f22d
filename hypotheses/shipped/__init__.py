"""The hypotheses that come with kvbound, one a file, each named for its claim."""
