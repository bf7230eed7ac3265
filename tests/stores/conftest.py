"""The fixture that runs a claim against both stores."""

import pytest

from tests.stores.grounds import DjangoGround, Ground, MemoryGround


@pytest.fixture(
    params=[
        pytest.param(MemoryGround, id="memory"),
        pytest.param(DjangoGround, id="postgres", marks=pytest.mark.django_db(transaction=True)),
    ]
)
def ground(request: pytest.FixtureRequest) -> Ground:
    """An empty store, once in memory and once in PostgreSQL."""
    made: Ground = request.param()
    return made


@pytest.fixture
def store(ground: Ground) -> object:
    """The store of `ground`."""
    return ground.store
