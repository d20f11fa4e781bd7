"""Numbers for people: rounding keeps bounds true."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provenet.report.numerals import count, number, outward, percent, seconds


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (0.0, "0"),
        (1.0, "1"),
        (-12.3456, "−12.3"),
        (1797, "1,800"),
        (999.96, "1,000"),
        (1e6, "10⁶"),
        (0.0001, "0.0001"),
        (1e-5, "10⁻⁵"),
        (2.5e-8, "2.5 × 10⁻⁸"),
        (9.999e-7, "10⁻⁶"),
        (1e150, "10¹⁵⁰"),
        (-3e-150, "−3 × 10⁻¹⁵⁰"),
        (float("nan"), "not a number"),
        (float("inf"), "∞"),
    ],
)
def test_number(x: float, text: str) -> None:
    assert number(x) == text


def test_percent_is_rounded_up() -> None:
    assert percent(8e-7) == "0.00008 %"
    assert percent(0.04101) == "4.2 %"
    assert percent(2.5e-9) == "2.5 × 10⁻⁷ %"
    assert percent(0.99999, 3, ROUND_FLOOR) == "99.9 %"


@pytest.mark.parametrize(
    ("s", "text"), [(0.0, "under 1 ms"), (0.0123, "12 ms"), (3.44, "3.4 s"), (125, "2 min 5 s"), (3840, "1 h 4 min")]
)
def test_seconds(s: float, text: str) -> None:
    assert seconds(s) == text


def test_count() -> None:
    assert [count(n, "gate") for n in (0, 1, 1797)] == ["no gates", "1 gate", "1,797 gates"]


def value(text: str) -> Decimal:
    mantissa, _, power = text.replace("−", "-").replace(",", "").partition(" × 10")
    if not power and mantissa.startswith("10") and mantissa != "10" and not mantissa[2:].isascii():
        mantissa, power = "1", mantissa[2:]
    plain = power.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789"))
    return Decimal(mantissa).scaleb(int(plain or 0))


sizes = st.floats(1e-200, 1e200)


@given(sizes, sizes)
def test_outward_never_narrows_the_bracket(a: float, b: float) -> None:
    lower, upper = sorted((a, b))
    low, high = outward(lower, upper)
    assert value(low) <= Decimal(repr(lower))
    assert value(high) >= Decimal(repr(upper))


@given(sizes, st.floats(1e-10, 0.4))
def test_outward_keeps_the_bracket_tight(lower: float, share: float) -> None:
    upper = lower * (1 + share)
    low, high = outward(lower, upper)
    assert value(high) - value(low) <= 4 * (Decimal(upper) - Decimal(lower))


@given(sizes)
def test_number_rounds_as_told(x: float) -> None:
    assert value(number(x, 3, ROUND_FLOOR)) <= Decimal(repr(x)) <= value(number(x, 3, ROUND_CEILING))
