"""The other parts of bindings' applications, for whoever asks where a part may go (`scheduling.together`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from controlplane.kinds import RESOURCE_BINDING
from controlplane.kinds.binding import Binding
from controlplane.kinds.together import PARTS_READ, application
from controlplane.state import State


def applications(state: State, bindings: Iterable[Binding]) -> Mapping[str, Sequence[Binding]]:
    """Return the parts of the applications that these bindings are parts of, by application; no query where they are
    parts of none."""
    wanted = sorted({key for one in bindings if (key := application(one))})
    return state.by_index(RESOURCE_BINDING, "together", wanted, limit=PARTS_READ) if wanted else {}
