"""Starts PostgreSQL and Redis together, for runs, tests and benches."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from apps.development.supervise import postgres, redis
from apps.development.supervise.processes import Supervisor
from apps.development.supervise.run_folder import RunFolder

REDIS, DATABASE = "REDIS_URL", "DATABASE_URL"


@dataclass(frozen=True)
class Services:
    """The addresses of PostgreSQL and Redis."""

    environment: dict[str, str]  # DATABASE_URL and REDIS_URL
    data: str | None  # a name for the data of a private PostgreSQL; None: DATABASE_URL was set


def start_services(
    home: RunFolder, supervisor: Supervisor, *, throwaway: bool = False, say: Callable[[str], None] = print
) -> Services:
    """Start the servers whose variables are not set, both at once. Returns their addresses.

    throwaway: the data need not survive a crash of the machine, as in tests.
    """
    began = time.monotonic()
    environment = {name: os.environ[name] for name in (REDIS, DATABASE) if os.environ.get(name)}
    data, programs, named = None, [], []
    if REDIS in environment:
        say(f"Redis: the server in {REDIS}")
    else:
        store = redis.prepare(home)
        programs.append(store.program)
        environment[REDIS] = store.url
        named.append(f"Redis {store.version} ({store.source})")
    if DATABASE in environment:
        say(f"PostgreSQL: the server in {DATABASE}")
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
