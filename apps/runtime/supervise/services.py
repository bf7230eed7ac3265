"""PostgreSQL and Redis together: what every test, bench and run stands on."""

import os
import time
from collections.abc import Callable

from apps.runtime.supervise import postgres, redis
from apps.runtime.supervise.home import Home
from apps.runtime.supervise.processes import Supervisor


def start_services(
    home: Home, supervisor: Supervisor, *, throwaway: bool = False, say: Callable[[str], None] = print
) -> dict[str, str]:
    """Start what the environment does not name, and return DATABASE_URL and REDIS_URL.

    throwaway: the data need not survive a crash of the machine (tests).
    """
    environment = {}
    if given := os.environ.get("REDIS_URL"):
        say("Redis: as REDIS_URL says")
        environment["REDIS_URL"] = given
    else:
        began = time.monotonic()
        store = redis.prepare(home)
        supervisor.start(store.program)
        say(f"Redis {store.version} ready after {time.monotonic() - began:.1f} s ({store.source})")
        environment["REDIS_URL"] = store.url
    if given := os.environ.get("DATABASE_URL"):
        say("PostgreSQL: as DATABASE_URL says")
        environment["DATABASE_URL"] = given
    else:
        began = time.monotonic()
        database = postgres.prepare(home, throwaway=throwaway)
        supervisor.start(database.program)
        first = "first start, " if database.first_start else ""
        say(f"PostgreSQL {database.version} ready after {time.monotonic() - began:.1f} s ({first}{database.source})")
        environment["DATABASE_URL"] = database.url
    return environment
