"""The supervisor: starts what `make run` needs, watches it, ends what it started and nothing else.

Standard library only: it runs before anything else does, and must be able to say what is missing.
"""
