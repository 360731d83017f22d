"""The hypotheses that come with kvbound: a question a file, with one or several claims."""
