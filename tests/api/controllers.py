"""Controllers in the server's database, run until nothing is due: what a worker would do, without waiting for one."""

from __future__ import annotations

from collections.abc import Sequence

from tests.api.server import Server

_PROGRAM = """
from apps.objects.configuration import configuration
from apps.objects.store import store
from apps.interpretation.service import interpretation
from apps.worker import credentials, signing
from controlplane.authentication.questions import NewTokens
from controlplane.apimachinery.meta import Ref
from controlplane.controllers import CONTROLLERS
from controlplane.engine.run import World, run_until_idle
names = {names!r}


def answer(question):
    return credentials.issued(question) if isinstance(question, NewTokens) else signing.signed(question)


chosen = [one for one in CONTROLLERS if one.name in names]
assert len(chosen) == len(names), names
for name in names if {refs!r} else ():
    store().mark(name, [Ref.parse(ref) for ref in {refs!r}])
interpret = lambda questions: interpretation().interpret(questions, patience=20)
world = World(answer=answer, interpret=interpret)
run_until_idle(chosen, store(), configuration().settings(reread=True), world=world)
"""


def work(server: Server, *names: str, refs: Sequence[str] = ()) -> None:
    """Let some controllers do all that is due for them now, and look at the objects `refs`."""
    server.manage("shell", "--no-imports", "-c", _PROGRAM.format(names=names, refs=list(refs)))
