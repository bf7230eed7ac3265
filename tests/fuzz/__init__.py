"""Requests that no client would send on purpose, made from a seed and sent to a running server.

`values.py` makes odd values and changes documents, `bodies.py` makes bodies, `requests.py` makes the requests of the
API, `pages.py` those of the pages, and `run.py` sends them and judges the answers.
"""
