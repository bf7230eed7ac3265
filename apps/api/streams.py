"""Streams: the view decides which changes a watch sends, from which version and in which form. `shell` sends them.

A WatchResponse is an ordinary response for Django. A server without the shell sends its body, which is an error.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
import orjson
from django.conf import settings
from rest_framework.request import Request

from apps.api import agents, in_force, reading
from apps.api.answer import ReadBeside
from apps.api.authorization import Attributes
from apps.api.beside import READERS
from apps.api.handed_over import HandedOver
from apps.api.initial_states import InitialState, InitialStates
from apps.api.logins import Login, login_of
from apps.api.query import Listing, listing_of, number
from apps.api.renderers import FormRenderer
from apps.api.target import Target
from apps.objects.encryption import Opening, legible
from apps.objects.listing import Logged
from apps.objects.store import DjangoStore
from apps.objects.versions import selects_converted
from controlplane.apimachinery.errors import BadRequest, Expired, StatusError
from controlplane.kind import KINDS, Kind
from controlplane.kinds import FAILOVER_CONFIGURATION
from controlplane.wire.negotiate import YAML, go_bool
from controlplane.wire.request import Choice
from controlplane.wire.resource import Resource
from controlplane.wire.table import Beside, IncludeObject, include_object_of

initial_states = InitialStates(limit=settings.API_BUFFER)

LONGEST_SECONDS = 3600  # longest watch; without timeoutSeconds a watch lasts 30 to 60 minutes
SHORTEST_SECONDS = 1800


Compute = Callable[[int, int], Sequence[Logged]]
"""Returns the changes after a version up to another, in the order of their versions. At most one for each object.

Raises Expired if the changes are no longer known, or are too many for one answer.
"""


class Computed(NamedTuple):
    """A kind that is computed when it is read. `present`: returns all objects of a choice, and their version."""

    compute: Compute
    present: Callable[[Choice], tuple[list[bytes], int]]


class Stream(msgspec.Struct, kw_only=True):
    """An authorised watch. `since` is the version after which it starts."""

    allowed: Attributes  # what the caller was authorised for; checked again where the stream begins
    login: Login | None = None  # the stream ends when this login becomes invalid; None: no login to check
    kind: str
    served: Kind | None = None  # the kind in the version of the stream, if objects are not shown as they are stored
    selects_converted: bool = False  # objects are converted before they are selected
    defined: Kind | None = None  # the kind as its definition was when the stream began; None: it is no custom kind
    resource: Resource
    choice: Choice
    since: int
    initial: InitialState | None = None  # objects that are sent first; None: none
    ends_initial: bool = False  # a bookmark marks the end of the initial objects
    bookmarks: bool = False
    seconds: float = LONGEST_SECONDS
    convert: str = ""  # "", Table, PartialObjectMetadata
    include_object: IncludeObject = "Metadata"
    read_beside: ReadBeside | None = None  # reads `beside`, before rows of a Table are made
    beside: Beside | None = None  # returns the values that columns show and an object does not contain
    compute: Compute | None = None  # computes the changes of a kind; None: the change log has them
    error: StatusError | None = None  # sent as the only event, for example if `since` is no longer kept

    @property
    def user(self) -> str:
        """The name of the user whose stream this is."""
        username: str = self.allowed.user.get_username()
        return username

    @property
    def opening(self) -> Opening:
        """How Secrets are decrypted in what is sent. Metadata and columns need no values that cannot be decrypted."""
        shows_no_values = self.convert and (self.convert != "Table" or self.include_object != "Object")
        return legible if shows_no_values else agents.opening_for(self.allowed.user)

    @property
    def is_outdated(self) -> bool:
        """Whether this process knows that the definition of the kind has changed since the stream began."""
        if self.defined is None:
            return False
        resource = self.resource
        return KINDS.served(resource.group, resource.version, resource.plural) is not self.defined


class WatchResponse(HandedOver):
    """A response whose body is a stream of changes."""

    def __init__(self, stream: Stream) -> None:
        super().__init__("watches need")
        self.stream = stream


def watch_response(
    request: Request, target: Target, store: DjangoStore, *, allowed: Attributes, computed: Computed | None = None
) -> WatchResponse:
    """Return the stream that a watch request asks for. `allowed`: what the view has authorised. Raises BadRequest.

    `computed`: how the objects of the kind and their changes are computed; None: they are stored.
    """
    query = request.query_params
    listing = listing_of(query, target.resource, namespace=target.namespace, name=target.name)
    if listing.start is not None:
        raise BadRequest("query parameters continue and watch cannot both be set")
    send_initial = go_bool("sendInitialEvents", query.get("sendInitialEvents"))
    bookmarks = go_bool("allowWatchBookmarks", query.get("allowWatchBookmarks"))
    if "sendInitialEvents" in query and listing.match != "NotOlderThan":
        raise BadRequest("query parameter sendInitialEvents needs resourceVersionMatch=NotOlderThan")
    if send_initial and not bookmarks:
        raise BadRequest("query parameter sendInitialEvents needs allowWatchBookmarks=true")
    renderer = request.accepted_renderer
    if getattr(renderer, "media_type", "") == YAML or not isinstance(renderer, FormRenderer):
        convert = ""
    else:
        convert = renderer.convert
    stream = Stream(
        allowed=allowed,
        login=login_of(request),
        kind=target.kind.key,
        served=None if target.kind.is_shown_as_stored else target.kind,
        selects_converted=selects_converted(target.kind, listing.choice),
        defined=target.kind if computed is None and KINDS.is_custom(target.kind) else None,
        resource=target.resource,
        choice=listing.choice,
        since=listing.version,
        bookmarks=bookmarks,
        seconds=_seconds(query),
        convert=convert,
        include_object=include_object_of(query.get("includeObject")),
        read_beside=READERS.get(target.kind.key) if convert == "Table" else None,
        compute=None if computed is None else computed.compute,
    )
    initial = send_initial if "sendInitialEvents" in query else listing.version == 0
    return WatchResponse(_started(stream, target, listing, store, computed, initial=initial, marked=send_initial))


def _started(
    stream: Stream,
    target: Target,
    listing: Listing,
    store: DjangoStore,
    computed: Computed | None,
    *,
    initial: bool,
    marked: bool,
) -> Stream:
    """Return the stream with its beginning: the present state, the changes after a version, or only new changes."""
    current = store.current_version()
    if listing.version > current:
        stream.error = Expired(f"resourceVersion {listing.version} is newer than anything written here ({current})")
    elif initial:
        stream.initial = _initial(target, msgspec.structs.replace(listing, opening=stream.opening), store, computed)
        if stream.convert == "Table" and stream.kind == FAILOVER_CONFIGURATION:
            stream.initial = _with_unwritten(stream.initial, target, listing.choice)
        stream.since = stream.initial.version
        stream.ends_initial = marked
    elif not listing.version:
        stream.since = current
    elif listing.version < (oldest := store.oldest_version()):
        stream.error = Expired(f"too old resource version: {listing.version} ({oldest})")
    return stream


def _initial(target: Target, listing: Listing, store: DjangoStore, computed: Computed | None) -> InitialState:
    """Return the present state of the watched objects. It is read only if no other stream of this process has it.

    Raises TooManyRequests.
    """
    opening = listing.opening
    key = (target.kind.key, target.resource.version, target.namespace, repr(listing.choice), opening)
    with initial_states.reading(key):
        if state := initial_states.find(key, store.current_version()):
            return state
        if computed is not None:
            return initial_states.add(key, *computed.present(listing.choice))
        page = reading.listed(store, target, Listing(choice=listing.choice, opening=opening))
        texts = _named(page.texts, listing.choice) if listing.choice.name else page.texts
        return initial_states.add(key, texts, page.version)


def _with_unwritten(state: InitialState, target: Target, choice: Choice) -> InitialState:
    """Return the state of FailoverConfigurations for a Table, with `default` even if that object does not exist."""
    document = in_force.unwritten(target.resource)
    if state.texts or not choice.takes(document):
        return state
    return InitialState([orjson.dumps(document)], state.version)


def _named(texts: list[bytes], choice: Choice) -> list[bytes]:
    """Return the texts of the name of a watch. The other selectors were read as the objects are stored."""
    named = msgspec.structs.replace(choice, fields=())
    return [text for text in texts if named.takes(orjson.loads(text))]


def _seconds(query: Any) -> float:
    """Return how long a watch lasts. Without timeoutSeconds it is random, so that clients do not reconnect together."""
    seconds = number(query, "timeoutSeconds")
    return float(min(seconds, LONGEST_SECONDS)) if seconds else random.uniform(SHORTEST_SECONDS, LONGEST_SECONDS)
