"""Every way in which the agent of a Pull cluster is not what it should be. Each is a function of a run, like those of
`trouble`; it says `fires` when it really happened."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.pulled import Pulled

LONG = (3.0, 40.0)  # seconds: shorter and longer than silence counts for


def stopped(run: Pulled) -> None:
    """An agent does not run for a while, and works from its disk when it is back."""
    name = run.edge()
    run.world.agents[name].stop()
    run.later(*LONG, run.world.agents[name].starts)
    run.when(lambda: run.ready(name) == "Unknown", lambda: run.fires("stopped"))


def cut_off(run: Pulled) -> None:
    """An agent does not reach the control plane for a while, and works on."""
    name = run.edge()
    run.world.agents[name].cut()
    run.later(*LONG, run.world.agents[name].mend)
    run.when(lambda: run.ready(name) == "Unknown", lambda: run.fires("cut_off"))


def cut_in_the_middle(run: Pulled) -> None:
    """The line is cut at any request: it arrives, and its answer does not."""
    name = run.edge()
    agent = run.world.agents[name]
    agent.line.carries = run.chance.randint(1, 12)

    def back() -> None:
        run.later(*LONG, agent.mend)
        run.fires("cut_in_the_middle")

    run.when(lambda: not agent.line.is_open, back)


def behind(run: Pulled) -> None:
    """An agent does not hear what happens to its Works for a while, and its heartbeats arrive."""
    name = run.edge()
    run.world.agents[name].behind_until = run.world.now + timedelta(seconds=run.chance.uniform(*LONG))
    run.fires("behind")


def restarted(run: Pulled) -> None:
    """An agent starts again and again."""
    agent = run.world.agents[run.edge()]
    for turn in range(5):
        run.world.after(2 * turn + run.chance.random(), agent.start)
    run.fires("restarted")


def forgetful(run: Pulled) -> None:
    """An agent loses its disk, and starts with an empty one after a while."""
    agent = run.world.agents[run.edge()]
    agent.stop()

    def back() -> None:
        agent.cache.kept.clear()
        agent.start()
        run.fires("forgetful")

    run.later(0.5, LONG[1], back)


def with_an_old_disk(run: Pulled) -> None:
    """The disk of an agent is put back to what it was seconds ago, while the control plane can be reached: otherwise
    the agent has nothing better, and works from what was put back."""
    agent = run.world.agents[run.edge()]
    kept = dict(agent.cache.kept)

    def back() -> None:
        if not agent.line.admits or agent.behind_until > run.world.now:
            return
        agent.stop()
        agent.cache.kept.clear()
        agent.cache.kept.update(kept)
        agent.start()
        run.fires("with_an_old_disk")

    run.later(*LONG, back)


def killed_after_its_member(run: Pulled) -> None:
    """An agent dies after its member did what it asked, and before it wrote that down."""
    run.outage(6, 20)
    before = run.world.died["after a member acted"]
    run.world.dies["after a member acted"] = run.chance.randint(1, 3)
    run.when(lambda: run.world.died["after a member acted"] > before, lambda: run.fires("killed_after_its_member"))


def skewed(run: Pulled) -> None:
    """An agent starts with a clock that is ahead, or behind."""
    agent = run.world.agents[run.edge()]
    agent.skew = timedelta(seconds=run.chance.choice((-3600, -90, 90, 3600)))
    agent.start()
    run.fires("skewed")


def away_with_its_member(run: Pulled) -> None:
    """The whole site is gone: the member and its agent."""
    name = run.edge()
    agent = run.world.agents[name]
    seconds = run.chance.uniform(*LONG)
    run.breaks(name, seconds=seconds)
    agent.stop()
    run.world.after(seconds + run.chance.uniform(-1, 6), agent.starts)
    run.when(lambda: run.ready(name) == "Unknown", lambda: run.fires("away_with_its_member"))


ABSENCES: dict[str, Callable[[Pulled], None]] = {
    one.__name__: one
    for one in (
        stopped,
        cut_off,
        cut_in_the_middle,
        behind,
        restarted,
        forgetful,
        with_an_old_disk,
        killed_after_its_member,
        skewed,
        away_with_its_member,
    )
}
