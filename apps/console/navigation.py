"""The navigation of the console."""

from __future__ import annotations

from typing import Final, NamedTuple

from django.urls import NoReverseMatch, reverse

NAVIGATION: Final = {  # name of the URL → title, in order
    "situation": "Situation",
    "clusters": "Clusters",
    "queue": "Queue",
    "records": "Records",
    "what-if": "What if",
    "readiness": "Readiness",
    "drills": "Drills",
}


class Entry(NamedTuple):
    """A link of the navigation. `here`: the reader is on this page, or on a page below it."""

    url: str
    title: str
    here: bool


def navigation(path: str) -> list[Entry]:
    """Return the links for a reader at a path. Pages without a URL are left out."""
    entries = []
    for name, title in NAVIGATION.items():
        try:
            url = reverse(f"console:{name}")
        except NoReverseMatch:
            continue
        here = path == url or (url != "/" and path.startswith(f"{url}/"))
        entries.append(Entry(url, title, here))
    return entries
