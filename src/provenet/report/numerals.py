"""Numbers as people read them."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal, localcontext

_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_PLAIN = range(-4, 6)  # places of the first digit written without a power of ten: 0.0001 to 999,999


def number(x: float | Decimal, digits: int = 3, rounding: str = ROUND_HALF_EVEN) -> str:
    """``digits`` significant digits, trailing zeros dropped: 0.0123, 12,300, 2.5 × 10⁻⁸."""
    if not math.isfinite(x):
        return "not a number" if math.isnan(x) else "∞" if x > 0 else "−∞"
    if x == 0:
        return "0"
    exact = _decimal(x)
    rounded = _round(exact, exact.adjusted() - digits + 1, rounding).normalize()
    return _write(rounded, rounded.adjusted())


def gap_number(gap: float, of: float = 1.0, digits: int = 3) -> str:
    """A gap of objectives of size ``of``: zero where it is rounding, and never below."""
    return "0" if gap < 1e-15 * abs(of) else number(gap, digits)


def count(n: int, noun: str = "", plural: str = "") -> str:
    """1,797 samples; 1 sample; no samples."""
    if not noun:
        return f"{n:,}"
    return f"{f'{n:,}' if n else 'no'} {noun if n == 1 else plural or noun + 's'}"


def power_of_ten(exponent: int) -> str:
    return "10" + str(exponent).translate(_SUPERSCRIPT)


def percent(fraction: float, digits: int = 2, rounding: str = ROUND_CEILING) -> str:
    """A share in per cent, rounded up unless told otherwise: an upper bound stays one."""
    share = _decimal(fraction).scaleb(2)
    if share.is_finite() and share and share.adjusted() == -5:  # 0.00008 % is still read at a glance
        return f"{_round(share, -4 - digits, rounding).normalize():f} %"
    return f"{number(share, digits, rounding)} %"


def seconds(s: float) -> str:
    """12 ms, 3.4 s, 2 min 5 s, 1 h 4 min."""
    if s < 1e-3:
        return "under 1 ms"
    if s < 1:
        return f"{number(1e3 * s, 2)} ms"
    if s < 60:
        return f"{number(s, 2)} s"
    minutes, rest = divmod(round(s), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60:,} h {minutes % 60} min"


def outward(lower: float, upper: float) -> tuple[str, str]:
    """Both ends of a bracket, rounded away from each other, with just enough digits to tell them apart."""
    if not (math.isfinite(lower) and 0 < upper < 2 * lower):  # far apart
        return number(lower, 3, ROUND_FLOOR), number(upper, 3, ROUND_CEILING)
    low, high = _decimal(lower), _decimal(upper)
    first = high.adjusted()
    finest = first - 11  # more digits than these nobody reads
    place = max(min((high - low).adjusted() if high > low else finest, first - 2), finest)
    return _write(_round(low, place, ROUND_FLOOR), first), _write(_round(high, place, ROUND_CEILING), first)


def _decimal(x: float | Decimal) -> Decimal:
    """The decimal a person would type: 0.1, not the binary fraction next to it."""
    return x if isinstance(x, Decimal) else Decimal(repr(float(x)))


def _round(x: Decimal, place: int, rounding: str) -> Decimal:
    with localcontext() as context:
        context.prec = 1100  # enough for every float64
        return x.quantize(Decimal(1).scaleb(place), rounding)


def _write(x: Decimal, leading: int) -> str:
    """Plain where ``leading``, the place of the first digit, allows it; otherwise as mantissa and power of ten."""
    if leading in _PLAIN:
        return f"{x:,f}".replace("-", "−")
    mantissa = f"{x.scaleb(-leading):f}".replace("-", "−")
    return power_of_ten(leading) if mantissa == "1" else f"{mantissa} × {power_of_ten(leading)}"
