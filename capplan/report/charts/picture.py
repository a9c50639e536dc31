"""A chart as a picture file: SVG, pixels, PDF, or a page that needs no other file and no network."""

import base64
import gzip
import hashlib
import json
from contextlib import suppress
from functools import cache
from html import escape
from importlib.metadata import version
from pathlib import Path

from capplan.files import cache_folder, replace_whole
from capplan.report.charts.look import Drawing

SUFFIXES = (".svg", ".png", ".pdf", ".html")
_SCALE = 2.0


def picture(drawing: Drawing, *, suffix: str) -> bytes:
    """Format a chart for a file's extension, one of `SUFFIXES`; the same chart gives the same bytes."""
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


def drawing_program() -> str:
    """Return the script that draws compiled charts in a page (Vega, BSD licence)."""
    return gzip.decompress(base64.b64decode(packed_drawing_program())).decode()


@cache
def packed_drawing_program() -> str:
    """Return the same script compressed, in letters: a page unpacks it, which keeps it a third as large.

    Bundling it takes a second of CPU time, so that it is kept in the user's cache folder, by the version of the package
    that bundles it. A file there that is damaged is made again.
    """
    import vl_convert  # noqa: PLC0415 - an optional package, wanted for pictures alone

    kept = cache_folder() / "charts" / f"vega-{version('vl-convert-python')}.b64"
    if (found := _kept_program(kept)) is not None:
        return found
    bundle = str(vl_convert.javascript_bundle(snippet="window.vegaEmbed = vegaEmbed;")).encode()
    packed = base64.b64encode(gzip.compress(bundle, mtime=0))
    with suppress(OSError):  # a folder that cannot be written costs a second, and no report
        kept.parent.mkdir(parents=True, exist_ok=True)
        replace_whole(kept, hashlib.sha256(packed).hexdigest().encode() + b"\n" + packed)
    return packed.decode()


def _kept_program(kept: Path) -> str | None:
    """Return a packed script that was kept, if its checksum holds."""
    try:
        checksum, _, packed = kept.read_bytes().partition(b"\n")
    except OSError:
        return None
    return packed.decode() if hashlib.sha256(packed).hexdigest().encode() == checksum else None


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
