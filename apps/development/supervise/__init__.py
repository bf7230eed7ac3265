"""The supervisor: starts the processes of `make run`, restarts those that crash, and ends only what it started.

It imports the standard library only, so that it can report which packages are missing.
"""
