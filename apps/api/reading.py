"""Reading: single objects, and lists in pages. All pages of a list show the version of the first page."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import orjson
from msgspec.structs import replace

from apps.api.query import Continue, Listing
from apps.api.target import Target
from apps.objects import counts
from apps.objects import listing as stored
from apps.objects.encryption import Opening, SealError, opened
from apps.objects.store import DjangoStore
from apps.objects.versions import selects_converted, texts_in_version
from controlplane.apimachinery.errors import (
    BadRequest,
    Cause,
    NotFound,
    StorageReadError,
    VersionTooLarge,
    qualified,
)
from controlplane.apimachinery.selectors import EVERYTHING
from controlplane.kind import Kind
from controlplane.kinds import EVENT
from controlplane.wire.request import Choice

MAX_SCANNED = 50_000  # objects read for one page if selectors have to be evaluated here
MAX_NAMED = 100  # unreadable objects that one error names at most, as in Kubernetes
_CHUNK = 500

log = logging.getLogger(__name__)


class Listed(NamedTuple):
    """A page of a list: objects as JSON, the version, and the `continue` token ("": the list ends here).

    `remaining`: how many objects follow. 0: none, or not counted because the request has selectors.
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


def get(target: Target, *, opening: Opening = opened) -> bytes:
    """Return an object's JSON. `opening`: how Secrets are decrypted.

    Raises NotFound, and StorageReadError if a value cannot be decrypted.
    """
    with _readable(target):
        text = stored.text_of(*target.ref, opening=opening)
    if text is None:
        raise NotFound.of(target.resource.plural, target.name, group=target.resource.group)
    (converted,) = texts_in_version(target.kind, [text])
    return converted


def listed(store: DjangoStore, target: Target, listing: Listing) -> Listed:
    """Return a page of a list.

    Raises Expired if its version is no longer kept, VersionTooLarge if its version is not written yet, and
    StorageReadError, with the names, if values of its objects cannot be decrypted.
    """
    with _readable(target):
        page = _listed(store, target, listing)
    if target.kind.is_shown_as_stored:
        return page
    return page._replace(texts=list(texts_in_version(target.kind, page.texts)))


@contextmanager
def _readable(target: Target) -> Iterator[None]:
    """Raise StorageReadError for objects whose values cannot be decrypted: a list without them would say that they are
    gone."""
    try:
        yield
    except SealError as error:
        log.error("request failed: %s", error)
        resource, shown = target.resource, error.places[:MAX_NAMED]
        more = f" and {len(error.places) - MAX_NAMED} more" if len(error.places) > MAX_NAMED else ""
        causes = [Cause("UnexpectedServerResponse", error.message, place) for place in shown]
        named = qualified(resource.plural, resource.group)
        message = f"failed to read {named} {', '.join(shown)}{more}: {error.message}"
        raise StorageReadError(message, kind=resource.plural, group=resource.group, causes=causes) from error


def _listed(store: DjangoStore, target: Target, listing: Listing) -> Listed:
    if listing.start is not None:
        after = (listing.start.namespace, listing.start.name)
        return _at(store, target, listing, listing.start.version, after)
    if listing.match == "Exact":
        return _at(store, target, listing, listing.version, stored.START)
    if selects_converted(target.kind, listing.choice):  # no transaction stays open while a webhook is asked
        page = _at(store, target, listing, store.current_version(), stored.START)
    else:
        page = _newest(target, listing)
    if listing.version > page.version:
        raise VersionTooLarge.of(listing.version, page.version)
    return page


def _newest(target: Target, listing: Listing) -> Listed:
    choice = listing.choice
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
            opening=listing.opening,
        )
        version = page.version
        return page.found

    if not choice.needs_documents:
        found = fetch(stored.START, listing.limit + 1 if listing.limit else 0)
        return _counted(target, listing, _cut(found, listing.limit, version))
    with stored.one_snapshot():
        found, rest = _filtered(fetch, target.kind, choice, stored.START, listing.limit)
    return _cut(found, listing.limit, version, rest)


def _at(store: DjangoStore, target: Target, listing: Listing, version: int, after: tuple[str, str]) -> Listed:
    """Return a page as it was at a version, with the labels that the objects had then."""
    if version > store.current_version():
        raise BadRequest(f"resourceVersion {version} has not been written yet; list again without continue")
    choice = listing.choice
    labels = EVERYTHING if selects_converted(target.kind, choice) else choice.labels  # a webhook may change them

    def fetch(after: tuple[str, str], limit: int) -> list[stored.Text]:
        objects = store.list_at(
            target.kind.key,
            version=version,
            namespace=target.namespace,
            after=after,
            limit=limit,
            labels=labels,
            fields=choice.fields,
            opening=listing.opening,
        )
        return [stored.Text(obj.namespace, obj.name, obj.text.encode()) for obj in objects]

    if not choice.needs_documents:
        found, rest = fetch(after, listing.limit + 1 if listing.limit else 0), None
    else:
        found, rest = _filtered(fetch, target.kind, choice, after, listing.limit)
    return _counted(target, listing, _cut(found, listing.limit, version, rest))


def _filtered(
    fetch: Callable[[tuple[str, str], int], list[stored.Text]],
    kind: Kind,
    choice: Choice,
    after: tuple[str, str],
    limit: int,
) -> tuple[list[stored.Text], tuple[str, str] | None]:
    """Return up to limit + 1 objects that match the selectors, and where to continue if not all objects were read.

    Objects are read in chunks. After MAX_SCANNED objects the page ends, so a page can be short or empty although the
    list continues. The second value is then the (namespace, name) of the last object read, else None.
    """
    if not limit:
        return _taken(kind, choice, fetch(after, 0)), None
    taken: list[stored.Text] = []
    scanned = 0
    while len(taken) <= limit:
        chunk = fetch(after, _CHUNK)
        taken += _taken(kind, choice, chunk)
        scanned += len(chunk)
        if len(chunk) < _CHUNK:
            break
        after = (chunk[-1].namespace, chunk[-1].name)
        if scanned >= MAX_SCANNED:
            return taken[: limit + 1], after
    return taken[: limit + 1], None


def _taken(kind: Kind, choice: Choice, chunk: list[stored.Text]) -> list[stored.Text]:
    """Return the objects that match the selectors. A webhook of a kind converts them first if it makes the fields."""
    if selects_converted(kind, choice):
        texts = texts_in_version(kind, [one.text for one in chunk])
        chunk = [one._replace(text=text) for one, text in zip(chunk, texts, strict=True)]
    return [one for one in chunk if choice.takes(orjson.loads(one.text))]


def _cut(found: list[stored.Text], limit: int, version: int, rest: tuple[str, str] | None = None) -> Listed:
    """Return a page of at most `limit` objects. `rest`: where the list continues even if fewer objects were found."""
    if not limit or len(found) <= limit:
        return Listed([text.text for text in found], version, "" if rest is None else Continue(version, *rest).token())
    kept = found[:limit]
    return Listed([text.text for text in kept], version, Continue(version, kept[-1].namespace, kept[-1].name).token())


def _counted(target: Target, listing: Listing, page: Listed) -> Listed:
    """Return a page with the number of objects that follow. As in Kubernetes, only lists without selectors have it."""
    if not page.token or not listing.choice.is_everything:
        return page
    begin, kind, namespace = Continue.read(page.token), target.kind.key, target.namespace
    most, known = listing.most_counted, 0 if listing.start is None else listing.start.remaining
    if known and not most:  # all pages show the same version, so nothing has to be counted again
        remaining = max(0, known - len(page.texts))
    elif most or listing.start is not None or listing.match == "Exact":
        remaining = stored.count(kind, namespace=namespace, after=(begin.namespace, begin.name), most=most)
    else:
        remaining = max(1, counts.number_at(kind, namespace=namespace, version=page.version) - len(page.texts))
    token = page.token if most else replace(begin, remaining=remaining).token()
    return page._replace(remaining=remaining, token=token)


def _keys(target: Target, choice: Choice) -> list[str]:
    """Return the index keys that narrow the search. Only Events have such a key: the object they are about."""
    if target.kind.key != EVENT:
        return []
    return [f"about={term.value}" for term in choice.fields if term.field == "involvedObject.uid" and term.equal]
