"""Answers of a real kube-apiserver about roles, kept as data: `answers.json.gz`.

`questions.py` makes the roles, bindings, questions and writes from a seed. `__main__.py` puts them to a kube-apiserver
that runs with --authorization-mode=RBAC and stores its answers (`make rbac-record`). tests/core/test_rbac_answers.py
compares ours. `own_kinds.txt` has the rights of each role on the kinds that no kube-apiserver knows.
"""
