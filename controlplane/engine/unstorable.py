"""Batches of decisions are stored although some of them cannot be stored."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from controlplane.engine.decision import Decision
from controlplane.engine.state import Actor, Claim, Complete, HeldLease, Outcome, Store, Unstorable

# Events of ordinary steps are stored if at most this many decisions of a batch have some, or may have some. A user
# who applies a few manifests can then follow each step, and 10,000 bindings do not cause 80,000 Events.
MAX_DECISIONS_WITH_STEPS = 25


def apply_decisions(
    store: Store,
    batch: Sequence[tuple[Claim | None, Decision]],
    *,
    by: Actor,
    lease: HeldLease | None = None,
    complete: Complete | None = None,
    completed: int = 0,
) -> list[Outcome | Unstorable]:
    """Store decisions and return their outcomes, in order. `complete`: see `Store.apply`.

    A decision that cannot be stored (Unstorable) is returned as that exception in its place; all others are stored.
    Events of steps are left out if more than MAX_DECISIONS_WITH_STEPS decisions have some, or may have some once they
    are completed. `completed`: how many decisions may be completed.
    Raises LeaseLost, and the store's own error if the store cannot be reached.
    """
    stepping = completed + sum(any(event.step for event in decision.events) for _, decision in batch)
    if stepping > MAX_DECISIONS_WITH_STEPS and complete is not None:
        complete = partial(_completed_without_steps, complete)
    elif stepping > MAX_DECISIONS_WITH_STEPS:
        batch = [(claim, without_steps(decision)) for claim, decision in batch]
    return _apply_halving(store, batch, by=by, lease=lease, complete=complete)


def _completed_without_steps(complete: Complete, decisions: Sequence[Decision]) -> list[Decision]:
    return [without_steps(decision) for decision in complete(decisions)]


def without_steps(decision: Decision) -> Decision:
    """Return a decision without the Events of ordinary steps."""
    events = tuple(event for event in decision.events if not event.step)
    return decision if len(events) == len(decision.events) else replace(decision, events=events)


def _apply_halving(
    store: Store,
    batch: Sequence[tuple[Claim | None, Decision]],
    *,
    by: Actor,
    lease: HeldLease | None,
    complete: Complete | None,
) -> list[Outcome | Unstorable]:
    """Store decisions, and halve a batch that cannot be stored until the unstorable decision is alone."""
    try:
        return list(store.apply(batch, by=by, lease=lease, complete=complete))
    except Unstorable as error:
        done, rest = error.written, batch[len(error.written) :]
        if len(rest) == 1:
            return [*done, error]
    half = len(rest) // 2
    parts = (rest[:half], rest[half:])
    halves = (_apply_halving(store, part, by=by, lease=lease, complete=complete) for part in parts)
    return [*done, *(outcome for outcomes in halves for outcome in outcomes)]
