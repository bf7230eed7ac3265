"""Addresses of members that must not be called: which they are, and the writes that are refused for them."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

import pytest

from controlplane.apimachinery import addresses
from controlplane.apimachinery.errors import Invalid
from controlplane.settings import MemberSettings, Settings
from controlplane.settings.checks import SettingError, checked
from tests.builders.documents import cluster
from tests.core.admitted import created, fields, updated

LOOPBACK = "https://127.0.0.1:6443"


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("127.0.0.1", "127.0.0.0/8"),
        ("127.255.0.9", "127.0.0.0/8"),
        ("::1", "::1/128"),
        ("0.0.0.0", "0.0.0.0/8"),
        ("::", "::/128"),
        ("169.254.169.254", "169.254.0.0/16"),
        ("fe80::a9fe:a9fe", "fe80::/10"),
        ("fd00:ec2::254", "fd00:ec2::254/128"),
        ("::ffff:169.254.169.254", "169.254.0.0/16"),
        ("::169.254.169.254", "169.254.0.0/16"),
        ("64:ff9b::a9fe:a9fe", "169.254.0.0/16"),
        ("2002:a9fe:a9fe::1", "169.254.0.0/16"),
        ("224.0.0.1", "224.0.0.0/4"),
        ("10.0.0.1", ""),
        ("192.168.1.1", ""),
        ("2001:db8::1", ""),
        ("::ffff:10.0.0.1", ""),
        ("64:ff9b::a00:1", ""),
    ],
)
def test_loopback_link_local_and_metadata_are_refused_in_every_spelling(address: str, network: str) -> None:
    assert addresses.refused(ip_address(address), refuse=addresses.REFUSED, allow=()) == network


def test_an_exception_allows_its_network_and_no_other() -> None:
    allow = ("127.0.0.0/8",)

    found = {
        one: addresses.refused(ip_address(one), refuse=addresses.REFUSED, allow=allow)
        for one in ("127.0.0.1", "::ffff:127.0.0.1", "::1", "169.254.169.254")
    }

    assert [one for one, network in found.items() if not network] == ["127.0.0.1", "::ffff:127.0.0.1"]


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("10.0.0.1.", "10.0.0.1"),
        ("[fe80::1%25eth0]", "fe80::1"),
        ("localhost", "127.0.0.1"),
        ("api.localhost.", "127.0.0.1"),
    ],
)
def test_a_host_may_be_written_as_an_address(host: str, address: str) -> None:
    assert str(addresses.literal(host)) == address


def test_a_name_is_no_address() -> None:
    assert addresses.literal("member1.example.com") is None


@pytest.mark.parametrize("host", ["2130706433", "127.1", "0x7f.0.0.1", "0177.0.0.1", "0x7f000001"])
def test_a_number_that_some_resolvers_read_as_an_address_is_refused(host: str) -> None:
    with pytest.raises(ValueError, match="four decimal numbers"):
        addresses.literal(host)


@pytest.mark.parametrize(
    ("spec", "field", "said"),
    [
        ({"apiEndpoint": "https://127.0.0.1:6443"}, "spec.apiEndpoint", "127.0.0.0/8"),
        ({"apiEndpoint": "https://[::1]:6443"}, "spec.apiEndpoint", "::1/128"),
        ({"apiEndpoint": "https://localhost"}, "spec.apiEndpoint", "127.0.0.0/8"),
        ({"apiEndpoint": "http://169.254.169.254/latest/meta-data"}, "spec.apiEndpoint", "169.254.0.0/16"),
        ({"apiEndpoint": "https://[::ffff:169.254.169.254]"}, "spec.apiEndpoint", "169.254.0.0/16"),
        ({"apiEndpoint": "https://2130706433"}, "spec.apiEndpoint", "four decimal numbers"),
        ({"apiEndpoint": "https://a.example", "proxyURL": "socks5://127.0.0.1:1080"}, "spec.proxyURL", "127.0.0.0/8"),
        ({"apiEndpoint": "https://a.example", "proxyURL": "http://me:pw@[fe80::1]:3128"}, "spec.proxyURL", "fe80::/10"),
    ],
)
def test_a_cluster_whose_address_must_not_be_called_is_refused(spec: dict[str, Any], field: str, said: str) -> None:
    with pytest.raises(Invalid) as caught:
        created(cluster(**spec), namespace="", settings=Settings())

    (cause,) = caught.value.details.causes
    assert cause.field == field
    assert said in cause.message


@pytest.mark.parametrize(
    "place", ["m.example:port", "m.example:65536", "m.example:1:2", "[2001:db8::1", "a b", "m\n.example"]
)
@pytest.mark.parametrize(("field", "scheme"), [("apiEndpoint", "https"), ("proxyURL", "socks5")])
def test_an_address_that_no_client_can_call_is_refused(field: str, scheme: str, place: str) -> None:
    assert fields(cluster(**{field: f"{scheme}://{place}"})) == {f"spec.{field}"}


def test_a_cluster_stored_with_an_address_that_no_client_can_call_can_still_be_edited() -> None:
    stored = created(cluster(apiEndpoint="https://m.example:6443"), namespace="").object
    unusable = stored.with_spec(api_endpoint="https://m.example:port")

    assert updated(cluster(apiEndpoint="https://m.example:port", region="eu"), unusable).object.spec.region == "eu"


@pytest.mark.parametrize(
    "endpoint",
    [
        *(
            "https://10.0.0.1:6443",
            "https://member1.example.com",
            "https://[2001:db8::1]",
            "https://[2001:db8::1]:6443",
        ),
        *("https://member1:65535/k8s/clusters/c-1", "https://member_1.example"),
    ],
)
def test_other_addresses_are_accepted(endpoint: str) -> None:
    assert created(cluster(apiEndpoint=endpoint), namespace="").object.spec.api_endpoint == endpoint


def test_a_proxy_may_have_a_user_and_a_port() -> None:
    proxy = "http://team:p%40ss@proxy.example:3128"

    assert created(cluster(proxyURL=proxy), namespace="").object.spec.proxy_url == proxy


def test_a_setting_that_is_no_network_stops_the_start() -> None:
    with pytest.raises(SettingError, match=r"members.allowedAddresses: \"10.0.0.1/8\" is not a network"):
        checked({"members": {"allowedAddresses": ["10.0.0.1/8"]}})


def test_an_exception_in_the_settings_lets_a_cluster_be_written() -> None:
    settings = Settings(members=MemberSettings(allowed_addresses=("127.0.0.0/8",)))

    assert created(cluster(apiEndpoint=LOOPBACK), namespace="", settings=settings).object.spec.api_endpoint == LOOPBACK


def test_a_cluster_stored_before_its_address_was_refused_can_still_be_edited() -> None:
    before = Settings(members=MemberSettings(allowed_addresses=("127.0.0.0/8",)))
    stored = created(cluster(apiEndpoint=LOOPBACK), namespace="", settings=before).object

    assert updated(cluster(apiEndpoint=LOOPBACK, region="eu"), stored).object.spec.region == "eu"
    assert fields(cluster(apiEndpoint="https://127.0.0.2"), old=stored) == {"spec.apiEndpoint"}
