"""Which objects can be propagated to members at all: their kinds and their namespaces [policy-matching]."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from controlplane import kinds
from controlplane.apimachinery.names import is_reserved_namespace
from controlplane.apimachinery.regex import full_match
from controlplane.kind import KINDS
from controlplane.kinds.template import Template


class PropagatedKinds(tuple[str, ...]):
    """The kinds that policies may select: all kinds without a type of their own.

    The members of this tuple are computed at each use, because users add kinds with CustomResourceDefinitions. A kind
    that this process has not loaded yet counts as a member.
    """

    __slots__ = ()

    def __contains__(self, key: object) -> bool:
        kind = KINDS.get(key) if isinstance(key, str) else None
        return key not in kinds.NEVER_PROPAGATED and (kind is None or kind.type is Template)

    def __iter__(self) -> Iterator[str]:
        return (kind.key for kind in KINDS if kind.key in self)


@lru_cache(maxsize=4096)
def is_propagated_namespace(namespace: str, skipped: tuple[str, ...]) -> bool:
    """Test whether objects in a namespace may be propagated [derived-names].

    `skipped` are regular expressions that have to match the whole name of the namespace. "" (no namespace) is
    propagated.
    """
    return not is_reserved_namespace(namespace) and not any(full_match(pattern)(namespace) for pattern in skipped)
