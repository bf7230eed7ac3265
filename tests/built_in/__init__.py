"""Answers of a real kube-apiserver about objects and edits of built-in kinds, kept as data: `answers.json.xz`.

`requests.py` plants one change at a time into the objects of `bases.yaml`. `__main__.py` sends every request to a
kube-apiserver and stores its answers (`make kinds-record`). tests/core/test_built_in_answers.py compares ours.
"""
