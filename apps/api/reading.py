"""Reading: one object, and pages of a list that all show the moment of the first one."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import orjson

from apps.api.query import Continue, Listing
from apps.api.target import Target
from apps.objects import listing as stored
from apps.objects.store import DjangoStore
from controlplane.apimachinery.errors import BadRequest, NotFound, TooManyRequests
from controlplane.kinds import EVENT
from controlplane.wire.request import Choice

MAX_SCANNED = 50_000  # objects looked at for one page when the database cannot decide alone
_CHUNK = 500


class Listed(NamedTuple):
    """A page of a list: its texts as they are served, its version, and the token for the rest ("": that was all).

    `remaining`: how many objects follow, 0 where selectors choose and nobody counted.
    """

    texts: list[bytes]
    version: int
    token: str
    remaining: int = 0

    @property
    def list_meta(self) -> dict[str, str | int]:
        meta: dict[str, str | int] = {"resourceVersion": str(self.version)}
        if self.token:
            meta["continue"] = self.token
        return {**meta, "remainingItemCount": self.remaining} if self.remaining else meta


def get(target: Target) -> bytes:
    """Return an object's JSON. Raises NotFound."""
    text = stored.text_of(*target.ref)
    if text is None:
        raise NotFound.of(target.resource.plural, target.name, group=target.resource.group)
    return text


def listed(store: DjangoStore, target: Target, asked: Listing) -> Listed:
    """Return a page of a list. Raises Expired where its version is no longer kept."""
    if asked.start is not None:
        after = (asked.start.namespace, asked.start.name)
        return _at(store, target, asked, asked.start.version, after)
    if asked.match == "Exact":
        return _at(store, target, asked, asked.version, stored.START)
    page = _newest(target, asked)
    if asked.version > page.version:
        raise TooManyRequests(  # what clients treat as "ask again"
            f"Too large resource version: {asked.version}, current: {page.version}", retry_after_seconds=1
        )
    return page


def _newest(target: Target, asked: Listing) -> Listed:
    choice = asked.choice
    version = 0

    def fetch(after: tuple[str, str], limit: int) -> list[stored.Text]:
        nonlocal version
        page = stored.page(
            target.kind.key,
            namespace=target.namespace,
            after=after,
            limit=limit,
            labels=choice.labels,
            fields=choice.fields,
            keys=_keys(target, choice),
        )
        version = version or page.version
        return page.found

    if not choice.needs_documents:
        found = fetch(stored.START, asked.limit + 1 if asked.limit else 0)
        return _counted(target, asked, _cut(found, asked.limit, version))
    found, rest = _filtered(fetch, choice, stored.START, asked.limit)
    return _cut(found, asked.limit, version, rest)


def _at(store: DjangoStore, target: Target, asked: Listing, version: int, after: tuple[str, str]) -> Listed:
    """Return a page as it was at a version; selectors are checked here, because labels too were others then."""
    if version > store.current_version():
        raise BadRequest(f"resourceVersion {version} has not been written yet; list again without continue")

    def fetch(after: tuple[str, str], limit: int) -> list[stored.Text]:
        found = store.list_at(target.kind.key, version=version, namespace=target.namespace, after=after, limit=limit)
        return [stored.Text(one.namespace, one.name, one.text.encode()) for one in found]

    if asked.choice.is_everything:
        found, rest = fetch(after, asked.limit + 1 if asked.limit else 0), None
    else:
        found, rest = _filtered(fetch, asked.choice, after, asked.limit)
    return _counted(target, asked, _cut(found, asked.limit, version, rest))


def _filtered(
    fetch: Callable[[tuple[str, str], int], list[stored.Text]], choice: Choice, after: tuple[str, str], limit: int
) -> tuple[list[stored.Text], tuple[str, str] | None]:
    """Return up to limit + 1 objects that the selectors take, fetching in chunks, and the (namespace, name) looked at
    last where there may be more beyond it: a page can be short, and even empty, and the list goes on."""
    if not limit:
        return [one for one in fetch(after, 0) if choice.takes(orjson.loads(one.text))], None
    taken: list[stored.Text] = []
    scanned = 0
    while len(taken) <= limit:
        chunk = fetch(after, _CHUNK)
        taken += [one for one in chunk if choice.takes(orjson.loads(one.text))]
        scanned += len(chunk)
        if len(chunk) < _CHUNK:
            break
        after = (chunk[-1].namespace, chunk[-1].name)
        if scanned >= MAX_SCANNED:
            return taken[: limit + 1], after
    return taken[: limit + 1], None


def _cut(found: list[stored.Text], limit: int, version: int, rest: tuple[str, str] | None = None) -> Listed:
    """Return a page of at most `limit` objects. `rest`: the list goes on there also where fewer were found."""
    if not limit or len(found) <= limit:
        return Listed([one.text for one in found], version, "" if rest is None else Continue(version, *rest).token())
    kept = found[:limit]
    return Listed([one.text for one in kept], version, Continue(version, kept[-1].namespace, kept[-1].name).token())


def _counted(target: Target, asked: Listing, page: Listed) -> Listed:
    """Return a page with how many objects follow it now, as Kubernetes says it: only where no selector chooses."""
    if not page.token or not asked.choice.is_everything:
        return page
    begin = Continue.read(page.token)
    remaining = stored.count(target.kind.key, namespace=target.namespace, after=(begin.namespace, begin.name))
    return page._replace(remaining=remaining)


def _keys(target: Target, choice: Choice) -> list[str]:
    """Return which declared index narrows the search: events of one object, which kubectl describe asks for."""
    if target.kind.key != EVENT:
        return []
    return [f"about={term.value}" for term in choice.fields if term.field == "involvedObject.uid" and term.equal]
