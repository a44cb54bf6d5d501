"""The benchmark: rows per second, start-up time and peak memory, beside the machine's own speed.

`python -m bench` (or ``make bench``) runs everything and writes RESULTS.md; NOTES.md says how to
read it.
"""
