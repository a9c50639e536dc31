"""A chart as a picture file: SVG, pixels, PDF, or a page that needs no other file and no network."""

import base64
import gzip
import json
from functools import cache
from html import escape

from capplan.report.charts.look import Drawing

SUFFIXES = (".svg", ".png", ".pdf", ".html")
_SCALE = 2.0


def picture(drawing: Drawing, *, suffix: str) -> bytes:
    """Format a chart for a file's extension, one of `SUFFIXES`; the same chart gives the same bytes.

    Raises:
        ImportError: the package that draws charts is missing.
    """
    import vl_convert  # noqa: PLC0415 - an optional package, wanted for pictures alone

    spec = dict(drawing.spec)
    if suffix == ".png":
        return bytes(vl_convert.vegalite_to_png(spec, scale=_SCALE))
    if suffix == ".pdf":
        return bytes(vl_convert.vegalite_to_pdf(spec))
    if suffix == ".html":
        return _page(drawing).encode()
    return vector(drawing).encode()


def vector(drawing: Drawing) -> str:
    """Format a chart as SVG."""
    import vl_convert  # noqa: PLC0415 - an optional package, wanted for pictures alone

    drawn = str(vl_convert.vegalite_to_svg(dict(drawing.spec)))
    return drawn.replace("<svg ", '<svg role="img" ', 1).replace(">", f"><title>{escape(drawing.title)}</title>", 1)


def compiled(drawing: Drawing) -> dict[str, object]:
    """Translate a chart into the lower language that the drawing program in a page runs."""
    import vl_convert  # noqa: PLC0415 - an optional package, wanted for pictures alone

    spec = {**drawing.spec, "width": "container", "autosize": {"type": "fit-x", "contains": "padding"}}
    spec["background"] = None
    made: dict[str, object] = vl_convert.vegalite_to_vega(spec)
    return made


@cache
def drawing_program() -> str:
    """Return the script that draws compiled charts in a page (Vega, BSD licence)."""
    import vl_convert  # noqa: PLC0415 - an optional package, wanted for pictures alone

    return str(vl_convert.javascript_bundle(snippet="window.vegaEmbed = vegaEmbed;"))


@cache
def packed_drawing_program() -> str:
    """Return the same script compressed, in letters: a page unpacks it, which keeps it a third as large."""
    return base64.b64encode(gzip.compress(drawing_program().encode(), mtime=0)).decode()


def _page(drawing: Drawing) -> str:
    """Write a page whose chart fills the window and shows figures under the pointer."""
    words = json.dumps(compiled(drawing), separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        words = words.replace(character, f"\\u{ord(character):04x}")
    return (
        "<!doctype html><html lang=en><meta charset=utf-8>"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        "script-src 'unsafe-inline' 'unsafe-eval'\">"
        f"<title>{escape(drawing.title)}</title><style>body{{margin:1rem}}#chart{{width:100%}}</style>"
        f'<div id="chart"></div><script>{_inline(drawing_program())}</script>'
        f"<script>vegaEmbed('#chart', {words}, {{mode: 'vega', renderer: 'svg', actions: false}})</script></html>"
    )


def _inline(script: str) -> str:
    """Keep a script from ending the element that holds it."""
    return script.replace("</script", "<\\/script")
