"""The chain of a workload: template, policy, binding, Works, copies, each with its state and its age."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from apps.console.object_links import api_url
from controlplane.apimachinery.meta import Condition, Object, Ref, condition
from controlplane.insight.copies import LEAVING, LEFT_BEHIND, Copy
from controlplane.kinds.binding import SCHEDULED, Binding
from controlplane.kinds.work import APPLIED, Work
from controlplane.propagation.bindings import template_ref


class ChainLink(NamedTuple):
    """A link of the chain. `url` "": it has no page. `at`: when it was last written; None: unknown.

    `since` "created": the change log does not reach back to the last write, so `at` is when the object was created.
    """

    title: str
    name: str
    url: str
    badge: str
    word: str
    text: str
    at: datetime | None = None
    since: str = "written"


class Chain(NamedTuple):
    """What a chain is made from. `policy` None: no policy claims the binding. `written`: when versions were written."""

    binding: Binding
    template: Object | None
    policy: Ref | None
    stored_policy: Object | None
    works: Sequence[Work]
    copies: Sequence[Copy]
    written: Mapping[int, datetime]


def links(chain: Chain) -> Iterator[ChainLink]:
    """Yield the links of the chain of a workload with a binding."""
    binding, at = chain.binding, chain.written
    yield _template_link(template_ref(binding), chain.template, at)
    yield _policy_link(chain)
    scheduled = condition(binding.status.conditions, SCHEDULED)
    badge = {"True": "ok", "False": "bad"}.get(scheduled.status, "warn") if scheduled is not None else "warn"
    yield ChainLink(
        binding.kind,
        _place(binding.ref),
        api_url(binding.ref),
        badge,
        "scheduled" if badge == "ok" else "not scheduled",
        _message(scheduled),
        *_age(binding, at),
    )
    if chain.works:
        yield _works_link(chain)
    yield _copies_link(chain.copies)


def unclaimed_links(template: Object) -> Iterator[ChainLink]:
    """Yield the links of a template without a binding."""
    yield _template_link(template.ref, template, {})
    text = "no PropagationPolicy or ClusterPropagationPolicy selects it, so it runs on no cluster"
    yield ChainLink("Policy", "none", "", "warn", "unclaimed", text)


def healthy_count(copies: Sequence[Copy]) -> int:
    """Return how many copies are known to be healthy now."""
    return sum(copy.health == "Healthy" and not copy.is_last_known for copy in copies)


def _policy_link(chain: Chain) -> ChainLink:
    policy = chain.policy
    if policy is None:
        return ChainLink("Policy", "none", "", "warn", "unclaimed", "no policy claims it any more; its placement stays")
    word = ("ok", "claims it") if chain.stored_policy is not None else ("warn", "deleted")
    age = _age(chain.stored_policy, chain.written)
    return ChainLink(policy.kind.rpartition("/")[2], _place(policy), api_url(policy), *word, "", *age)


def _works_link(chain: Chain) -> ChainLink:
    """Return the link of the Works. What a cluster out of reach has applied is not known now."""
    away = {copy.cluster for copy in chain.copies if copy.is_last_known}
    applied = [work for work in chain.works if _status(work) == "True" and work.cluster not in away]
    badge = "ok" if len(applied) == len(chain.works) else "warn"
    newest = max((moment for work in chain.works if (moment := _at(work, chain.written)) is not None), default=None)
    lost = sum(work.cluster in away for work in chain.works)
    text = f"{lost} known only from before an outage" if lost else ""
    return ChainLink("Works", f"{len(chain.works)}", "", badge, f"{len(applied)} applied", text, newest)


def _copies_link(copies: Sequence[Copy]) -> ChainLink:
    wanted = [copy for copy in copies if copy.role not in (LEAVING, LEFT_BEHIND)]
    healthy, lost = healthy_count(copies), sum(copy.is_last_known for copy in copies)
    badge = "ok" if wanted and healthy >= len(wanted) else "warn"
    text = f"{lost} known only from before an outage" if lost else ""
    return ChainLink("Copies", f"{len(copies)}", "", badge, f"{healthy} healthy", text)


def _template_link(ref: Ref, template: Object | None, at: Mapping[int, datetime]) -> ChainLink:
    word = ("ok", "stored", "") if template is not None else ("bad", "gone", "its copies are removed")
    return ChainLink(ref.kind.rpartition("/")[2], _place(ref), api_url(ref), *word, *_age(template, at))


def _at(obj: Object | None, at: Mapping[int, datetime]) -> datetime | None:
    return None if obj is None else at.get(int(obj.metadata.resource_version or 0))


def _age(obj: Object | None, at: Mapping[int, datetime]) -> tuple[datetime | None, str]:
    """Return when an object was last written, or created if that is not known any more; and which of the two it is."""
    written = _at(obj, at)
    if obj is None or written is not None:
        return written, "written"
    return obj.metadata.creation_timestamp, "created"


def _status(work: Work) -> str:
    applied = condition(work.status.conditions, APPLIED)
    return "" if applied is None else applied.status


def _message(found: Condition | None) -> str:
    return "the scheduler has not decided yet" if found is None else found.message


def _place(ref: Ref) -> str:
    return f"{ref.namespace}/{ref.name}" if ref.namespace else ref.name
