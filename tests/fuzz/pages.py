"""Requests of a browser: console, admin and login, by a person who is logged in and by one who is not."""

from __future__ import annotations

import random
from urllib.parse import quote, urlencode

from tests.fuzz import bodies, values
from tests.fuzz.requests import ANONYMOUS, PERSON, Request

HTML = "text/html,application/xhtml+xml,*/*;q=0.8"
CONSOLE = (
    *(
        "/",
        "/queue",
        "/readiness",
        "/readiness.csv",
        "/records",
        "/records.md",
        "/records/{}",
        "/records/{}.md",
        "/stream",
    ),
    *(
        "/bindings/{}/{}",
        "/workloads/apps/Deployment/{}/{}",
        "/workloads/{}/{}/{}/{}",
        "/clusters",
        "/clusters/{}",
        "/drills",
    ),
    *("/drills/{}", "/what-if", "/what-if/{}", "/orders/evictions/{}/{}", "/resume/{}", "/development/{}/{}", "/pause"),
    *("/queue/order", "/queue/rates", "/drills/start", "/drills/{}/stop", "/clusters/{}/fence", "/clusters/{}/drain"),
    *(
        "/clusters/{}/cordon",
        "/clusters/{}/taint",
        "/api/v1/namespaces/{}",
        "/apis/apps/v1/namespaces/{}/deployments/{}",
    ),
)
FIELDS = (
    *("cluster", "clusters", "seconds", "reason", "next", "name", "namespace", "sort", "page", "q", "state", "since"),
    *(
        "rate",
        "scope",
        "at",
        "from",
        "to",
        "limit",
        "tier",
        "kind",
        "uid",
        "version",
        "order",
        "taint",
        "effect",
        "dry_run",
    ),
)
OF_ADMIN = (
    "o",
    "p",
    "q",
    "e",
    "all",
    "_popup",
    "_to_field",
    "id__exact",
    "pk__in",
    "name__regex",
    "x__y__z",
    "_changelist_filters",
)
KEPT = ("logout", "password", "/delete")  # pages that would end the session, or remove the user


def page(seed: int, number: int, admin: list[str]) -> Request:
    """Return the page request with this number of a seed. `admin`: the pages of the admin."""
    chance = random.Random(f"page {seed} {number}")
    who = chance.choices((PERSON, ANONYMOUS), (85, 15))[0]
    is_admin = chance.random() < 0.4
    path = _admin(chance, admin) if is_admin else _filled(chance, chance.choice(CONSOLE))
    names = OF_ADMIN if is_admin else FIELDS
    query = {chance.choice(names): _text(chance) for _ in range(chance.choice((0, 0, 1, 2)))}
    headers = {"Accept": HTML if chance.random() < 0.9 else "application/json"}
    if chance.random() < 0.7:
        method, body = "GET", None
    else:
        method = chance.choice(("POST", "POST", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"))
        form = {chance.choice(FIELDS): _text(chance) for _ in range(chance.randrange(5))}
        if is_admin:
            form |= {
                "action": chance.choice(("delete_selected", "x")),
                "_selected_action": chance.choice(("x", "-1", "9" * 30)),
            }
        body = bodies.damaged(chance, urlencode(form, errors="surrogatepass").encode())
        headers["Content-Type"] = "application/x-www-form-urlencoded"
        if chance.random() < 0.1:
            headers["Content-Type"] = chance.choice(bodies.ODD_TYPES)
    url = f"{path}?{urlencode(query, errors='surrogatepass')}" if query else path
    return Request(number, who, method, url, headers, body)


def _admin(chance: random.Random, pages: list[str]) -> str:
    path = chance.choice(pages)
    if chance.random() < 0.4:
        path += chance.choice(("add/", "1/change/", "x/change/", "{}/change/", "{}/history/", "{}/", "{}"))
    return _filled(chance, path)


def _filled(chance: random.Random, path: str) -> str:
    while "{}" in path:
        part = quote(values.name(chance).replace("{}", ""), safe="", errors="surrogatepass")
        path = path.replace("{}", part, 1)
    return path


def _text(chance: random.Random) -> str:
    return chance.choice(values.TEXTS)
