from __future__ import annotations

import copy
import pickle

import pytest

from controlplane.apimachinery.quantities import MAX_INT64, Quantity, QuantityError, parse


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1000m", "1"),
        ("1.5", "1500m"),
        ("1.5Gi", "1536Mi"),
        ("1024Mi", "1Gi"),
        ("1e19", "10e18"),
        ("0.1Mi", "104857600m"),
        ("1000E", "1e21"),
        ("0.9n", "1n"),
        ("-0.9n", "-1n"),
        ("-0", "0"),
        ("+2Gi", "2Gi"),
    ],
)
def test_the_canonical_text_loses_nothing_and_takes_the_largest_suffix(text: str, canonical: str) -> None:
    assert str(Quantity(parse(text).nano, parse(text).format)) == canonical


def test_amounts_are_equal_by_value_whatever_their_spelling() -> None:
    assert parse("1") == parse("1000m") == parse("1e0")
    assert {parse("1Gi"): "memory"}[parse("1024Mi")] == "memory"
    assert parse("1") != "1"


def test_a_rest_is_rounded_away_from_zero() -> None:
    assert (parse("1500m").value(), parse("-1500m").value()) == (2, -2)
    assert (parse("1500u").milli_value(), parse("-0.656Mi").value()) == (2, -687866)


def test_values_beyond_64_bits_are_exact_instead_of_wrapped() -> None:
    assert parse("100E").value() == 100 * 10**18
    assert parse("8Ei").value() == MAX_INT64


def test_a_sum_keeps_the_format_of_the_left_side_unless_that_is_zero() -> None:
    assert str(parse("1Gi") + parse("1G")) == "2073741824"
    assert (parse("0") + parse("1Gi")).format == "BinarySI"
    assert str(parse("1Gi") * 3) == "3Gi"
    assert str(-parse("500m")) == "-500m"


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "abc", "1GB", "1.2.3", "0x10", "３", "1e", "1ki", "1-1", "1e3Ki", "1Mi5"]
)
def test_what_is_no_quantity_is_refused_with_the_text_and_a_way_out(text: str) -> None:
    with pytest.raises(QuantityError, match="Ki Mi Gi") as refused:
        parse(text)

    assert repr(text) in str(refused.value)


@pytest.mark.parametrize("text", ["1e999999999", "1" * 300])
def test_a_short_text_cannot_ask_for_a_huge_number(text: str) -> None:
    with pytest.raises(QuantityError):
        parse(text)


@pytest.mark.parametrize(("value", "canonical"), [("2Gi", "2Gi"), (2, "2"), (0.5, "500m"), (1e-7, "100e-9")])
def test_documents_may_hold_text_or_numbers(value: object, canonical: str) -> None:
    assert str(Quantity.of(value)) == canonical


@pytest.mark.parametrize("value", [None, True, [], {}, float("nan"), float("inf")])
def test_other_values_of_documents_are_refused(value: object) -> None:
    with pytest.raises(QuantityError):
        Quantity.of(value)


def test_a_quantity_cannot_be_changed() -> None:
    amount = parse("1")

    with pytest.raises(AttributeError):
        amount.nano = 2

    assert copy.deepcopy(amount) == amount
    assert pickle.loads(pickle.dumps(amount)) == amount
