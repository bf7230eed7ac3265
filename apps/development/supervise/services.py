"""PostgreSQL and Redis together: what every test, bench and run stands on."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from apps.development.supervise import postgres, redis
from apps.development.supervise.processes import Supervisor
from apps.development.supervise.run_folder import Home

REDIS, DATABASE = "REDIS_URL", "DATABASE_URL"


@dataclass(frozen=True)
class Services:
    """Where PostgreSQL and Redis are."""

    environment: dict[str, str]  # DATABASE_URL and REDIS_URL
    data: str | None  # names the data of a private PostgreSQL; None: DATABASE_URL named a server of somebody's


def start_services(
    home: Home, supervisor: Supervisor, *, throwaway: bool = False, say: Callable[[str], None] = print
) -> Services:
    """Start what the environment does not name, both at once, and return where they are.

    throwaway: the data need not survive a crash of the machine (tests).
    """
    began = time.monotonic()
    environment = {name: os.environ[name] for name in (REDIS, DATABASE) if os.environ.get(name)}
    data, programs, named = None, [], []
    if REDIS in environment:
        say(f"Redis: as {REDIS} says")
    else:
        store = redis.prepare(home)
        programs.append(store.program)
        environment[REDIS] = store.url
        named.append(f"Redis {store.version} ({store.source})")
    if DATABASE in environment:
        say(f"PostgreSQL: as {DATABASE} says")
    else:
        database = postgres.prepare(home, throwaway=throwaway)
        programs.append(database.program)
        environment[DATABASE], data = database.url, database.data
        first = "first start, " if database.first_start else ""
        named.append(f"PostgreSQL {database.version} ({first}{database.source})")
    supervisor.start(*programs)
    if named:
        say(f"{' and '.join(named)} ready after {time.monotonic() - began:.1f} s")
    return Services(environment, data)
