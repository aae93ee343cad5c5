"""Savitzky-Golay's coefficients in exact rational arithmetic, rounded once: a solver's last bits would be the machine's own."""

from fractions import Fraction
from math import factorial, lcm


def coefficients(window: int, polyorder: int, derivative: int) -> list[list[float]]:
    """Row ``e``: the weights of ``window`` values that give their least-squares polynomial's derivative at value ``e``.

    ``window`` is odd, neighbours are 1 apart. The middle row smooths, the others serve the ends.

    Source: Savitzky and Golay, Analytical Chemistry 36 (1964) 1627; the ends as Gorry, Analytical Chemistry 62 (1990)
    570.
    """
    half = window // 2
    places = range(-half, half + 1)
    size = polyorder + 1
    moments = [sum(place**power for place in places) for power in range(2 * size)]
    inverse = _inverse([[Fraction(moments[row + column]) for column in range(size)] for row in range(size)])
    common = lcm(*(entry.denominator for row in inverse for entry in row))
    whole = [[int(entry * common) for entry in row] for row in inverse]
    powers = [[place**power for place in places] for power in range(size)]
    fits = [[sum(row[k] * powers[k][j] for k in range(size)) for j in range(window)] for row in whole]
    falls = [factorial(k) // factorial(k - derivative) for k in range(derivative, size)]
    rows = []
    for place in places:
        slopes = [fall * place**power for power, fall in enumerate(falls)]
        mixed = [
            sum(slope * fit[j] for slope, fit in zip(slopes, fits[derivative:], strict=True)) for j in range(window)
        ]
        rows.append([entry / common for entry in mixed])
    return rows


def _inverse(matrix: list[list[Fraction]]) -> list[list[Fraction]]:
    """The inverse of a positive definite matrix, by Gauss and Jordan; no pivot can be 0."""
    size = len(matrix)
    rows = [[*row, *(Fraction(int(index == at)) for at in range(size))] for index, row in enumerate(matrix)]
    for at in range(size):
        pivot = rows[at][at]
        rows[at] = [entry / pivot for entry in rows[at]]
        for index, row in enumerate(rows):
            if index != at and row[at]:
                factor = row[at]
                rows[index] = [entry - factor * lead for entry, lead in zip(row, rows[at], strict=True)]
    return [row[size:] for row in rows]
