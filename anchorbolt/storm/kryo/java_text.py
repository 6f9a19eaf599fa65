"""Numbers as Java writes them as text: `Double.toString`, `Float.toString` and `BigDecimal.toString`.

The text of Java 8 to 18, on which all these releases of Storm ran. Java 19 found shorter ones for some numbers (the
float 2**30 was 1.07374182E9 and is 1.0737418E9), so the old way is followed here digit by digit: after Steele and
White, "How to print floating-point numbers accurately", with the quirks of Java's `FloatingDecimal`.
"""

from __future__ import annotations

import math
from decimal import Decimal

_SHIFT = 52
_LARGEST_WHOLE_EXPONENT = 62


def double_text(bits: int) -> str:
    """Return `Double.toString` of a number, given by its 64 bits."""
    return _text(bits, exponent_bits=11, fraction_bits=52)


def float_text(bits: int) -> str:
    """Return `Float.toString` of a number, given by its 32 bits."""
    return _text(bits, exponent_bits=8, fraction_bits=23)


def decimal_text(unscaled: int, scale: int) -> str:
    """Return `BigDecimal.toString()`: Python's Decimal follows the same rules."""
    digits = tuple(map(int, str(abs(unscaled))))
    return str(Decimal((int(unscaled < 0), digits, -scale)))


def _text(bits: int, *, exponent_bits: int, fraction_bits: int) -> str:
    fraction = bits & (1 << fraction_bits) - 1
    exponent = bits >> fraction_bits & (1 << exponent_bits) - 1
    sign = "-" if bits >> fraction_bits + exponent_bits else ""
    if exponent == (1 << exponent_bits) - 1:
        return "NaN" if fraction else f"{sign}Infinity"
    if not exponent and not fraction:
        return f"{sign}0.0"
    if exponent:
        significant = fraction_bits + 1
        fraction |= 1 << fraction_bits
    else:  # subnormal: shifted until its highest bit is where it is in other numbers
        significant = fraction.bit_length()
        fraction <<= fraction_bits + 1 - significant
        exponent = significant - fraction_bits
    exponent -= (1 << exponent_bits - 1) - 1
    digits, point = _digits(exponent, fraction << _SHIFT - fraction_bits, significant)
    return sign + _laid_out(digits, point)


def _digits(exponent: int, fraction: int, significant: int) -> tuple[str, int]:
    """Return the digits of a number, and where its point stands among them.

    Args:
        exponent: Of two.
        fraction: 53 bits, of which the highest is 1 and stands before the binary point.
        significant: How many of these bits the number has.
    """
    zeros = (fraction & -fraction).bit_length() - 1
    bits = _SHIFT + 1 - zeros
    behind_point = max(0, bits - exponent - 1)
    if behind_point == 0 and exponent <= _LARGEST_WHOLE_EXPONENT:
        return _whole_digits(fraction << exponent >> _SHIFT, exponent - significant - 1)
    power = _estimated_power_of_ten(exponent, fraction)
    # number = 2**b2 * 5**b5 * fraction / (2**s2 * 5**s5), half the gap to the next = 2**m2 * 5**b5 / the same
    b5, s5 = max(0, -power), max(0, power)
    b2, s2 = b5 + behind_point + exponent, s5 + behind_point
    m2 = b2 - significant
    fraction >>= zeros
    b2 -= bits - 1
    common = min(b2, s2)
    b2, s2, m2 = b2 - common, s2 - common, m2 - common
    if bits == 1:  # the gap below a power of two is half as wide
        m2 -= 1
    if m2 < 0:
        b2, s2, m2 = b2 - m2, s2 - m2, 0
    needed = max(bits + b2 + _bits_of_5(b5), s2 + 1 + _bits_of_5(s5 + 1))
    width = 32 if needed < 32 else 64 if needed < 64 else None
    number, ten = (fraction << b2) * 5**b5, (10 << s2) * 5**s5
    return _generated(number, ten, (1 << m2) * 5**b5, power, width)


def _generated(number: int, ten: int, gap: int, power: int, width: int | None) -> tuple[str, int]:
    """Generate digits until what is left is within half the gap to the next number.

    Args:
        number: What is left, over a tenth of `ten`.
        ten: Ten times the divisor.
        gap: Half the gap, over a tenth of `ten`.
        power: Of ten, of the first digit; it may be too high by one.
        width: Of the integers with which Java reckons here, in bits; they may overflow. None: they are as large as
            they need to be, and then just half the gap counts as within it, too.
    """
    one = ten // 10
    digits: list[int] = []
    low = high = False
    while not (low or high):
        digit, number = divmod(number, one)
        number, gap = number * 10, _overflown(gap * 10, width)
        low = number < gap
        high = number + gap >= ten if width is None else _overflown(number + gap, width) > ten
        if gap <= 0 and digits:  # it has overflown, so it is larger than anything else
            low = high = True
        if not digits and digit == 0 and not high:
            power -= 1
            digit = -1
        if not digits and not -3 <= power < 8:
            low = high = False  # with an exponent there are two digits at least
        digits.append(digit)
    if digits[0] < 0:
        del digits[0]
    rest = _overflown(_overflown(number * 2, width) - ten, width)
    up = high and (not low or rest > 0 or (rest == 0 and digits[-1] % 2 == 1))
    text = "".join(map(str, digits))
    if not up:
        return text, power + 1
    rounded = str(int(text) + 1).rjust(len(text), "0")
    return rounded, power + 1 + len(rounded) - len(text)


def _overflown(number: int, width: int | None) -> int:
    if width is None:
        return number
    number &= (1 << width) - 1
    return number - (1 << width) if number >> width - 1 else number


def _whole_digits(number: int, insignificant_bits: int) -> tuple[str, int]:
    """Return the digits of a whole number, those rounded away that its bits do not reach."""
    cut = len(str(1 << insignificant_bits)) - 1 if insignificant_bits > 1 else 0
    kept, rest = divmod(number, 10**cut)
    text = str(kept + (rest >= 10**cut // 2 if cut else 0))
    return text, len(text) + cut


def _estimated_power_of_ten(exponent: int, fraction: int) -> int:
    return math.floor(
        (fraction / (1 << _SHIFT) - 1.5) * 0.289529654 + 0.176091259 + exponent * 0.301029995663981
    )


def _bits_of_5(power: int) -> int:
    return (5**power).bit_length() if 0 < power < 27 else 3 * power


def _laid_out(digits: str, point: int) -> str:
    digits = digits.rstrip("0") or "0"
    if 0 < point < 8:
        digits = digits.ljust(point + 1, "0")
        return f"{digits[:point]}.{digits[point:]}"
    if -3 < point <= 0:
        return f"0.{'0' * -point}{digits}"
    return f"{digits[0]}.{digits[1:] or '0'}E{point - 1}"
