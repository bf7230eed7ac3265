"""An address that sends wrong bootstrap tokens has to wait."""

from __future__ import annotations

import pytest
from django.test import RequestFactory

from apps.api import bearer
from apps.api.login_throttle import Attempts
from controlplane.apimachinery.errors import TooManyRequests

pytestmark = pytest.mark.django_db

WRONG = "abcdef.0123456789abcdef"


def test_wrong_tokens_of_an_address_are_limited_and_its_other_logins_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bearer, "_wrong", Attempts(burst=2, seconds_each=3600, most=10))
    here = RequestFactory().get("/", REMOTE_ADDR="192.0.2.1")

    assert [bearer.credential_of(WRONG, here) for _ in range(2)] == [None, None]

    with pytest.raises(TooManyRequests) as refused:
        bearer.credential_of(WRONG, here)
    assert refused.value.details.retry_after_seconds == 3600
    assert bearer.credential_of("lb_unknown", here) is None
    assert bearer.credential_of(WRONG, RequestFactory().get("/", REMOTE_ADDR="192.0.2.2")) is None
