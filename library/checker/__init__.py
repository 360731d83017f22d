"""Check a schedule or a certificate of kvbound without kvbound: one file, the standard library, exact numbers.

    python library/check.py INSTANCE.json SCHEDULE.json       execute it; print its objectives, or the first broken rule
    python library/check.py INSTANCE.json CERTIFICATE.json    recompute its bound
    python library/check.py --all library/                    every record of the library

Files may end in .gz. Exit code 0: valid; 1: a rule is broken, or a claim is not proved; 2: no such file, or bad input.

It is written from the documentation (docs/semantics.md, formats.md, certificates.md, bounds.md, configurations.md, the
heads of alone.py, evictions.py, events.py, potentials.py in kvcore/certificates), whose symbols it uses, and shares no
code with kvbound, so that an error in one is no error in the other. It checks the kinds, fields and objectives that
certificates of the library have (`KINDS`), and says of others that it does not. It is slow: a search (`events`,
`slots`) has a budget of its own, and where that is spent the answer is "not checked". It rounds on the way by 2^-64 at
most: it may prove more than kvbound, which rounds more; less only by that rounding of shares. An instance that
no schedule can serve is taken: each schedule of it breaks a rule, and each bound of it is true.

What is above a limit `MOST_..` is "not checked", whatever it claims: files (unpacked) of 128 MiB or 10^7 values, for
bounds 5 * 10^6 output tokens, 2^18 slots of `prices`, and for each schedule or certificate `MOST_STEPS`: at most an
hour, and some GB. What a file asks for is counted before it is done.
"""
