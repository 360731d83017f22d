"""Kinds of certificates that nothing proposes any more, `prices` and `tree`: files of before are read for a release."""
