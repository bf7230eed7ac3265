"""Kubernetes JSONPath. State preservation evaluates it on the status of an object [state-preservation].

Printer columns of definitions show the first value that a path finds (`first`).

A template is text with actions in braces: ``{.jobStatus.jobId}``, ``{.conditions[?(@.type=="Ready")].status}``,
``{range .items[*]}{.name} {end}``. A missing key is an error. Parsing and evaluation have limits, so that neither a
hostile template nor a huge status can delay a decision.
"""

from __future__ import annotations

from controlplane.apimachinery.jsonpath.template import MAX_TEMPLATE_LENGTH, JSONPathError, parse
from controlplane.apimachinery.jsonpath.walk import MAX_DEPTH, MAX_RESULT_LENGTH, MAX_STEPS, evaluate, first

__all__ = [
    "MAX_DEPTH",
    "MAX_RESULT_LENGTH",
    "MAX_STEPS",
    "MAX_TEMPLATE_LENGTH",
    "JSONPathError",
    "evaluate",
    "first",
    "parse",
]
