"""What the usual balances print, as patterns: which line is a weight, and which says why there is none."""

from typing import NamedTuple

from edge_runtime.spec.payload import BalancePreset, NoValue


class BalanceLines(NamedTuple):
    """``weight`` are patterns with the fields mass and unit, in this order; ``refuse`` are those of no weight.

    ``not_understood`` are the whole lines by which it answers a question that it does not know.
    """

    weight: tuple[str, ...]
    refuse: dict[NoValue, tuple[str, ...]]
    not_understood: tuple[str, ...] = ()


_A_WEIGHT = "{mass:number} {unit:word}"

PRESETS: dict[BalancePreset, BalanceLines] = {
    # Mettler Toledo, reference manuals "MT-SICS": S S is stable, S D dynamic; S I is not executable, as while it tares; ES,
    # ET and EL are errors of syntax, transmission and logic in what it was sent.
    "mt-sics": BalanceLines(
        (f"S S {_A_WEIGHT}",),
        {"unstable": (f"S D {_A_WEIGHT}",), "overload": ("S +",), "underload": ("S -",), "not_ready": ("S I",)},
        ("ES", "ET", "EL"),
    ),
    # Sartorius SBI: the unit is blank while the weight is not stable. Newer models write High and Low, older ones H, L.
    "sartorius-16": BalanceLines(
        (_A_WEIGHT,),
        {
            "unstable": ("{mass:number}",),
            "overload": ("High", "H", "HH"),
            "underload": ("Low", "L", "LL"),
            "not_ready": ("C", "Cal.Ext.", "Cal.Int.", "--", "- -", "Err {code:text}"),
        },
    ),
    # The same behind six characters: N, the net weight, or Stat. Gross, tare and computed weights have other codes.
    "sartorius-22": BalanceLines(
        (f"N {_A_WEIGHT}",),
        {
            "unstable": ("N {mass:number}",),
            "overload": ("Stat High", "Stat H", "Stat HH"),
            "underload": ("Stat Low", "Stat L", "Stat LL"),
            "not_ready": (
                "Stat",
                "Stat C",
                "Stat Cal.Ext.",
                "Stat Cal.Int.",
                "Stat --",
                "Stat - -",
                "Stat Err {code:text}",
            ),
        },
    ),
    # A&D standard format: the unit has three characters, so a long one follows the number at once; QT counts pieces.
    "a&d": BalanceLines(
        (f"ST,{_A_WEIGHT}", "ST,{mass:number}{unit:word}", f"QT,{_A_WEIGHT}", "QT,{mass:number}{unit:word}"),
        {
            "unstable": (f"US,{_A_WEIGHT}", "US,{mass:number}{unit:word}"),
            "overload": ("OL,+{number:text}",),
            "underload": ("OL,-{number:text}",),
            "not_ready": ("EC,{code:text}",),
        },
    ),
}
