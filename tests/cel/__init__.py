"""Answers of a real kube-apiserver about rules in CEL, kept as data: `answers.json`.

`cases.py` has the schemas and writes. `__main__.py` puts them to a kube-apiserver and stores its answers
(`make cel-record`). tests/core/test_cel_answers.py compares ours.
"""
