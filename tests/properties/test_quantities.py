from __future__ import annotations

from decimal import ROUND_UP, Context, Decimal

from hypothesis import given
from hypothesis import strategies as st

from controlplane.apimachinery.quantities import BINARY_SI, DECIMAL_EXPONENT, DECIMAL_SI, NANO, Quantity, parse

EXACT = Context(prec=400)
amounts = st.builds(
    Quantity,
    st.integers(-(2**80), 2**80) | st.integers(-(2**40), 2**40).map(lambda whole: whole * NANO),
    st.sampled_from([DECIMAL_SI, DECIMAL_EXPONENT]),
) | st.builds(Quantity, st.integers(-(2**62), 2**62).map(lambda whole: whole * NANO), st.just(BINARY_SI))
digits = st.from_regex(r"[+-]?[0-9]{1,20}(\.[0-9]{0,12})?", fullmatch=True)
EXPONENTS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18, "e-4": -4, "E7": 7}


@given(amounts)
def test_the_canonical_text_reads_back_as_the_same_amount(amount: Quantity) -> None:
    again = parse(str(amount))

    assert again == amount
    # A binary amount without a binary suffix, such as 3000, reads back as a decimal one.
    assert str(again) == str(amount) or again.format != amount.format


@given(amounts, amounts)
def test_subtracting_undoes_adding(a: Quantity, b: Quantity) -> None:
    assert a + b - b == a
    assert a + b == b + a


@given(digits, st.sampled_from(sorted(EXPONENTS)), digits, st.sampled_from(sorted(EXPONENTS)))
def test_order_is_that_of_the_decimal_numbers(a: str, a_suffix: str, b: str, b_suffix: str) -> None:
    numbers = [_decimal(a, a_suffix), _decimal(b, b_suffix)]

    compared = parse(a + a_suffix).compare(parse(b + b_suffix))

    assert compared == int(EXACT.compare(*numbers))


@given(amounts)
def test_values_are_the_next_whole_number_away_from_zero(amount: Quantity) -> None:
    assert 0 <= abs(amount.value()) * NANO - abs(amount.nano) < NANO
    assert 0 <= abs(amount.milli_value()) * (NANO // 1000) - abs(amount.nano) < NANO // 1000


@given(st.text(alphabet="0123456789.+-eEinumkKMGTP ", max_size=12))
def test_any_text_is_read_or_refused_and_what_is_read_is_stable(text: str) -> None:
    try:
        amount = parse(text)
    except ValueError:
        return

    assert parse(str(amount)) == amount


def _decimal(number: str, suffix: str) -> Decimal:
    exact = EXACT.scaleb(Decimal(number), EXPONENTS[suffix])
    return exact.quantize(Decimal("1e-9"), rounding=ROUND_UP, context=EXACT)
