"""Applies on a condition: the member refuses if its object is not the one that the manifest was made for.

A member answers such an apply in one request. Without the condition, its object would have to be read before every
apply, and could still change between the two requests.
"""

from __future__ import annotations

from typing import Any

from controlplane.clusters.questions import Answer, Ensure

Document = dict[str, Any]

NO_VERSION = str(2**63 - 1)  # a resourceVersion that no object has: an apply with it can only create the object


def conditional(question: Ensure, manifest: Document, known: Document | None) -> Document:
    """Return the manifest with the condition under which it may be applied.

    `known`: the member's object as it was last read; None: the object must not exist. `manifest`: the manifest of the
    question, with fields of the known object that are kept (`Ensure.over`). If fields are kept, the object must still
    have the known resourceVersion. Otherwise only its uid must be the same, because members write the status of a
    running workload often.
    """
    if known is None:
        condition = {"resourceVersion": NO_VERSION}
    elif manifest is question.manifest:
        condition = {"uid": known["metadata"]["uid"]}
    else:
        condition = {"resourceVersion": known["metadata"]["resourceVersion"]}
    return {**manifest, "metadata": {**manifest["metadata"], **condition}}


def is_outdated(answer: Answer, known: Document | None) -> bool:
    """Test whether a member may have refused a conditional apply because of its condition, so that it has to be asked.

    API servers answer 409 where the resourceVersion differs or the object is gone, and 422 where the uid differs.
    """
    return answer.code == 409 or (answer.code == 422 and known is not None)
