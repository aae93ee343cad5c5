"""The pieces a report's page is put together from, each text escaped; it knows no model."""

from collections.abc import Iterable, Sequence
from html import escape

NOT_MEASURED = "Not measured."

STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 56rem; padding: 2.5rem 1.25rem 4rem; background: #fff; color: #1b1f24;
  font: 1.0625rem/1.55 "Iowan Old Style", "Palatino Linotype", Palatino, Georgia, serif; }
h1, h2, h3, table, figure, nav, .band, .facts { font-family: system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 2rem; line-height: 1.15; margin: 0 0 .4rem; letter-spacing: -.01em; }
h1 small { font-size: 1.1rem; font-weight: 400; color: #59606a; letter-spacing: 0; white-space: nowrap; }
h2 { font-size: 1.3rem; line-height: 1.25; margin: 3rem 0 .7rem; padding-top: .8rem; border-top: 2px solid #1b1f24; }
h3 { font-size: 1.03rem; margin: 1.9rem 0 .4rem; }
p { margin: .5rem 0; max-width: 42rem; overflow-wrap: anywhere; }
ul { margin: .5rem 0; padding-left: 1.2rem; max-width: 44rem; }
li { margin: .3rem 0; overflow-wrap: anywhere; }
a { color: #1f5a92; }
.lead { font-size: 1.15rem; }
.limits { margin: 1.4rem 0; padding: .9rem 1.1rem; border: 1px solid #d9a441; border-left: .4rem solid #b8520a;
  background: #fff9ee; max-width: none; }
.limits strong { font-family: system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
.absent { color: #59606a; font-style: italic; }
.note { color: #4a4f57; font-size: .95rem; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(12.5rem, 1fr)); gap: .8rem; margin: 1.4rem 0; padding: 0; }
.facts div { padding: .7rem .9rem; background: #f3f5f7; border-radius: .3rem; }
.facts dt { font-size: .85rem; color: #4a4f57; }
.facts dd { margin: .1rem 0 0; font-size: 1.25rem; font-weight: 600; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; margin: .8rem 0 1.2rem;
  background: linear-gradient(90deg, #fff 40%, transparent) left / 2rem 100% no-repeat local,
    linear-gradient(270deg, #fff 40%, transparent) right / 2rem 100% no-repeat local,
    linear-gradient(90deg, #c9ced4, transparent) left / .6rem 100% no-repeat scroll,
    linear-gradient(270deg, #c9ced4, transparent) right / .6rem 100% no-repeat scroll; }
table { border-collapse: collapse; font-size: .92rem; line-height: 1.4; min-width: 100%; }
caption { text-align: left; padding: 0 0 .4rem; color: #4a4f57; }
th, td { padding: .38rem .8rem .38rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid #e1e4e8; }
th:last-child, td:last-child { padding-right: 0; }
thead th { border-bottom: 1px solid #1b1f24; font-weight: 600; vertical-align: bottom; }
tbody th { font-weight: 500; }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.n + :not(.n) { padding-left: 1.1rem; }
.long { min-width: 13rem; overflow-wrap: anywhere; }
code { font: .86em/1.4 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; overflow-wrap: anywhere; }
.chosen th, .chosen td { background: #eef5ec; }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); gap: 1.2rem; }
figure { margin: .8rem 0; }
figure svg { display: block; width: 100%; max-width: 30rem; height: auto; }
figcaption { font-size: .92rem; line-height: 1.4; color: #4a4f57; margin-top: .3rem; max-width: 30rem; }
.band { margin: .3rem 0 .9rem; }
.band p { margin: 0 0 .15rem; font-size: .9rem; max-width: none; }
.track { position: relative; height: 1.1rem; background: #e8ebee; border-radius: .15rem; }
.track span { position: absolute; top: 0; bottom: 0; border-radius: .15rem; }
.tolerated { background: #b9cfe4; }
.trained { background: #1f5a92; }
.track .seen { top: auto; bottom: -.32rem; height: .26rem; background: #b8520a; }
.key { display: inline-block; width: .9rem; height: .7rem; margin: 0 .25rem 0 .7rem; border-radius: .1rem; }
.key.physical { background: #e8ebee; margin-left: 0; }
.key.seen { background: #b8520a; }
@media (max-width: 30rem) {
  body { font-size: 1rem; padding: 1.5rem 1rem 3rem; }
  h1 { font-size: 1.6rem; }
  table { font-size: .85rem; }
  th, td { padding-right: .6rem; }
  .facts { grid-template-columns: 1fr 1fr; gap: .5rem; }
  .facts dd { font-size: 1.08rem; }
}
@media print {
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  :root { font-size: 10pt; }
  body { font-size: 1rem; max-width: none; padding: 0; }
  h2, h3, caption { break-after: avoid; }
  figure, tr, .limits, .band { break-inside: avoid; }
  .wide { overflow: visible; background: none; }
}
"""


def page(title: str, body: Iterable[str]) -> str:
    """A whole document that asks for nothing beyond itself; its own policy forbids it to."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(part for part in body if part)
        + "\n</main>\n</body>\n</html>\n"
    )


def paragraph(text: str, kind: str = "") -> str:
    """One paragraph."""
    return f"<p{_class(kind)}>{escape(text)}</p>"


def section(title: str, *parts: str) -> str:
    """A part of the page under its own heading."""
    return "\n".join([f"<section>\n<h2>{escape(title)}</h2>", *(part for part in parts if part), "</section>"])


def heading(text: str) -> str:
    """A heading within a section."""
    return f"<h3>{escape(text)}</h3>"


def absent(why: str) -> str:
    """What a section says that has nothing to show."""
    return paragraph(f"{NOT_MEASURED} {why}", "absent")


def items(texts: Iterable[str]) -> str:
    """A plain list."""
    return "<ul>" + "".join(f"<li>{escape(text)}</li>" for text in texts) + "</ul>"


def key_figures(pairs: Iterable[tuple[str, str]]) -> str:
    """A few figures, large."""
    cells = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in pairs)
    return f'<dl class="facts">{cells}</dl>'


def table(
    caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], *, kinds: str = "", chosen: int | None = None
) -> str:
    """A table whose first column names the row.

    ``kinds`` has a letter a column: ``t`` text, ``n`` number, ``l`` long text, ``c`` code.
    """
    kinds = kinds or "t" * len(head)
    names = {"t": "", "n": "n", "l": "long", "c": "long"}

    def cell(at: int, text: str) -> str:
        tag = "th" if at == 0 else "td"
        shown = f"<code>{escape(text)}</code>" if kinds[at] == "c" and text else escape(text)
        scope = ' scope="row"' if at == 0 else ""
        return f"<{tag}{scope}{_class(names[kinds[at]])}>{shown}</{tag}>"

    header = "".join(f'<th scope="col"{_class(names[kinds[at]])}>{escape(text)}</th>' for at, text in enumerate(head))
    body = "".join(
        f"<tr{_class('chosen' if number == chosen else '')}>{''.join(cell(at, text) for at, text in enumerate(row))}</tr>\n"
        for number, row in enumerate(rows)
    )
    return (
        f'<div class="wide" role="region" aria-label="{escape(caption)}" tabindex="0"><table>'
        f"<caption>{escape(caption)}</caption>\n<thead><tr>{header}</tr></thead>\n<tbody>\n{body}</tbody></table></div>"
    )


def figure(svg: str, caption: str) -> str:
    """A picture that was drawn already, and what it shows."""
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"


def pictures(figures: Iterable[str]) -> str:
    """Figures side by side where there is room."""
    return f'<div class="pictures">{"".join(figures)}</div>'


def band(name: str, whole: tuple[float, float], parts: Iterable[tuple[str, tuple[float, float]]]) -> str:
    """Ranges laid over each other, for the eye alone: a table says the same in numbers."""
    width = whole[1] - whole[0] or 1.0
    spans = []
    for kind, (low, high) in parts:
        left = max(0.0, min(100.0, (low - whole[0]) / width * 100))
        right = max(left, min(100.0, (high - whole[0]) / width * 100))
        spans.append(f'<span class="{kind}" style="left:{left:.2f}%;width:{max(right - left, 0.6):.2f}%"></span>')
    return f'<div class="band" aria-hidden="true"><p>{escape(name)}</p><div class="track">{"".join(spans)}</div></div>'


def number(value: float | None) -> str:
    """Four digits, or all of a larger whole number, with a true minus sign; a dash where there is none."""
    if value is None:
        return "\N{EM DASH}"
    shown = f"{value:.0f}" if _WHOLE_FROM <= abs(value) < _WHOLE_TO else f"{value + 0.0:.4g}"
    return shown.replace("-", "\N{MINUS SIGN}").replace("e\N{MINUS SIGN}0", "e\N{MINUS SIGN}")


_WHOLE_FROM, _WHOLE_TO = 1e4, 1e7


def unit(code: str) -> str:
    """A UCUM code as people write the unit; nothing for a number without one."""
    return "" if code == "1" else _WRITTEN.get(code) or code.translate(_RAISED)


_WRITTEN = {
    "Cel": "\N{DEGREE SIGN}C", "[degF]": "\N{DEGREE SIGN}F", "[in_i'Hg]": "inHg", "mm[Hg]": "mmHg", "[psi]": "psi",
    "cm[H2O]": "cmH\N{SUBSCRIPT TWO}O", "[mi_i]/h": "mph", "[kn_i]": "kn", "[ft_i]": "ft", "[ft_i]/s": "ft/s",
    "[in_i]": "in", "[ppth]": "\N{PER MILLE SIGN}", "[ppm]": "ppm", "[ppb]": "ppb", "deg": "\N{DEGREE SIGN}",
}  # fmt: skip
_RAISED = str.maketrans("23", "\N{SUPERSCRIPT TWO}\N{SUPERSCRIPT THREE}")


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""
