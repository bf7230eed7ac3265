"""What the agent of a Pull cluster is to wait with: the removal of a copy, or of some of its replicas.

An agent that comes back would carry out at once what was decided before its outage: it does not know whether the other
copies are healthy [returning-copies]. So such changes are held while its cluster is not Ready, by an annotation
of the Work.
"""

from __future__ import annotations

from controlplane.apimachinery.names import HELD_ANNOTATION, REPLICAS_HELD_ANNOTATION
from controlplane.kinds.work import Work


def is_removal_held(work: Work) -> bool:
    """Test whether the agent waits with the removal of the object of a Work."""
    return HELD_ANNOTATION in work.metadata.annotations


def with_removal_held(work: Work, *, held: bool) -> Work:
    """Return the Work of a Pull cluster whose agent waits with the removal, or no longer."""
    return _annotated(work, HELD_ANNOTATION, "true" if held else "")


def replicas_held(work: Work) -> int:
    """Return how many replicas the agent keeps although the Work asks for fewer. 0: it keeps no more than that."""
    text = work.metadata.annotations.get(REPLICAS_HELD_ANNOTATION, "")
    return int(text) if text.isdecimal() and len(text) < 10 else 0


def with_replicas_held(work: Work, replicas: int) -> Work:
    """Return the Work of a Pull cluster whose agent keeps so many replicas for now. 0: as many as the Work asks for."""
    return _annotated(work, REPLICAS_HELD_ANNOTATION, str(replicas) if replicas else "")


def _annotated(work: Work, name: str, text: str) -> Work:
    rest = {key: value for key, value in work.metadata.annotations.items() if key != name}
    return work.with_meta(annotations=rest | ({name: text} if text else {}))
