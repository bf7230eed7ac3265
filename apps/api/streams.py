"""What a watch is, decided by the view: which changes, from where, in what form. `shell` serves it.

A WatchResponse is an ordinary response to Django; a server that is not our shell sends what it says then, an error.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import orjson
from django.conf import settings
from django.http import HttpResponse
from rest_framework.request import Request

from apps.api import in_force, reading
from apps.api.authorization import Attributes
from apps.api.initial_states import InitialState, InitialStates
from apps.api.logins import Login, login_of
from apps.api.query import Listing, listing_of, number
from apps.api.renderers import FormRenderer
from apps.api.target import Target
from apps.objects.store import DjangoStore
from controlplane.apimachinery.errors import BadRequest, Expired, ServiceUnavailable, StatusError
from controlplane.kinds import FAILOVER_CONFIGURATION
from controlplane.wire.negotiate import YAML, go_bool
from controlplane.wire.request import Choice
from controlplane.wire.resource import Resource
from controlplane.wire.status import status_of
from controlplane.wire.table import IncludeObject, include_object_of

initial_states = InitialStates(limit=settings.API_BUFFER)

LONGEST_SECONDS = 3600  # no watch lasts longer; one without timeoutSeconds ends after 30 to 60 minutes
SHORTEST_SECONDS = 1800


class Stream(msgspec.Struct, kw_only=True):
    """A watch that was allowed. `since` is the version it starts after; `initial` are objects to send first."""

    allowed: Attributes  # what the caller was authorised for; checked again where the stream begins
    login: Login | None = None  # it ends with this; None: with nothing
    kind: str
    resource: Resource
    choice: Choice
    since: int
    initial: InitialState | None = None  # what is sent first; None: nothing
    ends_initial: bool = False  # a bookmark says where the initial objects end
    bookmarks: bool = False
    seconds: float = LONGEST_SECONDS
    convert: str = ""  # "", Table, PartialObjectMetadata
    include_object: IncludeObject = "Metadata"
    read_beside: Callable[[], Mapping[str, Any]] | None = None  # from the database, before rows of a Table are made
    beside: Mapping[str, Any] = {}  # what columns show that is not part of the objects, by name: as it was read last
    error: StatusError | None = None  # sent as the only event: the version asked for is gone

    @property
    def user(self) -> str:
        """The name of the user whose stream this is."""
        username: str = self.allowed.user.get_username()
        return username


class WatchResponse(HttpResponse):
    """A response whose body is a stream."""

    def __init__(self, stream: Stream) -> None:
        error = ServiceUnavailable("watches need the ASGI server: manage.py serve")
        super().__init__(orjson.dumps(status_of(error)), status=503, content_type="application/json")
        self.stream = stream
        self._has_been_logged = True  # for Django: the status is not what the client gets


def watch_response(request: Request, target: Target, store: DjangoStore, *, allowed: Attributes) -> WatchResponse:
    """Return the stream a watch asks for. Raises BadRequest for options that cannot be."""
    query = request.query_params
    asked = listing_of(query, target.resource, namespace=target.namespace, name=target.name)
    if asked.start is not None:
        raise BadRequest("query parameter continue does not go with watch")
    send_initial = go_bool("sendInitialEvents", query.get("sendInitialEvents"))
    bookmarks = go_bool("allowWatchBookmarks", query.get("allowWatchBookmarks"))
    if "sendInitialEvents" in query and asked.match != "NotOlderThan":
        raise BadRequest("query parameter sendInitialEvents needs resourceVersionMatch=NotOlderThan")
    if send_initial and not bookmarks:
        raise BadRequest("query parameter sendInitialEvents needs allowWatchBookmarks=true")
    renderer = request.accepted_renderer
    if getattr(renderer, "media_type", "") == YAML or not isinstance(renderer, FormRenderer):
        convert = ""
    else:
        convert = renderer.convert
    configured = convert == "Table" and target.kind.key == FAILOVER_CONFIGURATION
    stream = Stream(
        allowed=allowed,
        login=login_of(request),
        kind=target.kind.key,
        resource=target.resource,
        choice=asked.choice,
        since=asked.version,
        bookmarks=bookmarks,
        seconds=_seconds(query),
        convert=convert,
        include_object=include_object_of(query.get("includeObject")),
        read_beside=in_force.beside_objects if configured else None,
    )
    initial = send_initial if "sendInitialEvents" in query else asked.version == 0
    return WatchResponse(_started(stream, target, asked, store, initial=initial, marked=send_initial))


def _started(
    stream: Stream, target: Target, asked: Listing, store: DjangoStore, *, initial: bool, marked: bool
) -> Stream:
    """Return the stream with what it begins with: the present state, the history after a version, or nothing."""
    current = store.current_version()
    if asked.version > current:
        stream.error = Expired(f"resourceVersion {asked.version} is newer than anything written here ({current})")
    elif initial:
        stream.initial = _initial(target, asked, store)
        if stream.read_beside is not None:
            stream.initial = _with_unwritten(stream.initial, target, asked.choice)
        stream.since = stream.initial.version
        stream.ends_initial = marked
    elif not asked.version:
        stream.since = current
    elif asked.version < (oldest := store.oldest_version()):
        stream.error = Expired(f"too old resource version: {asked.version} ({oldest})")
    return stream


def _initial(target: Target, asked: Listing, store: DjangoStore) -> InitialState:
    """Return the present state of what is watched; read only if no other stream of this process has it at hand.
    Raises TooManyRequests."""
    key = (target.kind.key, target.namespace, repr(asked.choice))
    with initial_states.reading(key):
        if found := initial_states.find(key, store.current_version()):
            return found
        page = reading.listed(store, target, Listing(choice=asked.choice))
        texts = _named(page.texts, asked.choice) if asked.choice.name else page.texts
        return initial_states.add(key, texts, page.version)


def _with_unwritten(found: InitialState, target: Target, choice: Choice) -> InitialState:
    """Return the present state of FailoverConfigurations as a Table shows it: with `default` before it is written."""
    document = in_force.unwritten(target.resource)
    if found.texts or not choice.takes(document):
        return found
    return InitialState([orjson.dumps(document)], found.version)


def _named(texts: list[bytes], choice: Choice) -> list[bytes]:
    return [text for text in texts if choice.takes(orjson.loads(text))]


def _seconds(query: Any) -> float:
    """Return how long a watch lasts. Without timeoutSeconds clients are spread, so that they do not return at once."""
    asked = number(query, "timeoutSeconds")
    return float(min(asked, LONGEST_SECONDS)) if asked else random.uniform(SHORTEST_SECONDS, LONGEST_SECONDS)
