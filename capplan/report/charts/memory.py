"""Live bytes over the operators as an SVG drawing."""

from collections.abc import Sequence
from html import escape

from capplan.units import format_bytes

_WIDTH, _HEIGHT = 960, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 90, 20, 46, 44
_MOST_POINTS = 2000


def render_live_svg(
    live_bytes: Sequence[int], *, title: str, peak_label: str, phases: Sequence[tuple[str, int]] = ()
) -> str:
    """Draw live bytes over the ops; `phases` are names with the op at which each starts. The peak is marked."""
    most = max(live_bytes)
    peak = live_bytes.index(most)
    wide, high = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    last = max(1, len(live_bytes) - 1)

    def x(op: int) -> float:
        return _LEFT + wide * op / last

    def y(size_bytes: float) -> float:
        return _TOP + high * (1 - size_bytes / (most or 1))

    points = " ".join(f"{x(op):.1f},{y(size):.1f}" for op, size in _thinned(live_bytes))
    area = f"{x(0):.1f},{y(0):.1f} {points} {x(last):.1f},{y(0):.1f}"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        'font-family="sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        f'<text x="{_LEFT}" y="20" font-size="14" fill="#1a1a1a">{escape(title)}</text>',
    ]
    for share in (0, 0.25, 0.5, 0.75, 1):
        level = y(share * most)
        lines.append(f'<line x1="{_LEFT}" y1="{level:.1f}" x2="{_WIDTH - _RIGHT}" y2="{level:.1f}" stroke="#e0e0e0"/>')
        lines.append(
            f'<text x="{_LEFT - 8}" y="{level + 4:.1f}" text-anchor="end" fill="#555555">'
            f"{escape(format_bytes(share * most))}</text>"
        )
    for name, op in phases:
        lines.append(
            f'<line x1="{x(op):.1f}" y1="{_TOP}" x2="{x(op):.1f}" y2="{_TOP + high}" stroke="#999999" '
            'stroke-dasharray="4 3"/>'
        )
        lines.append(f'<text x="{x(op) + 3:.1f}" y="{_TOP + high + 14}" fill="#555555">{escape(name)}</text>')
    lines += [
        f'<polygon points="{area}" fill="#cfe3f5"/>',
        f'<polyline points="{points}" fill="none" stroke="#1f6fb2" stroke-width="1.2"/>',
        f'<circle cx="{x(peak):.1f}" cy="{y(most):.1f}" r="4" fill="#c8102e"/>',
        f'<text x="{min(max(x(peak), _LEFT + 200), _WIDTH - 220):.1f}" y="{_TOP - 8}" text-anchor="middle" '
        f'fill="#c8102e">{escape(format_bytes(most))} at {escape(peak_label)}</text>',
        f'<text x="{_LEFT + wide / 2:.0f}" y="{_HEIGHT - 8}" text-anchor="middle" fill="#555555">operator calls</text>',
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _thinned(live_bytes: Sequence[int]) -> list[tuple[int, int]]:
    """Keep the highest op of each stretch, so that no peak is lost."""
    stretch = max(1, len(live_bytes) // _MOST_POINTS)
    kept = []
    for start in range(0, len(live_bytes), stretch):
        piece = live_bytes[start : start + stretch]
        highest = max(range(len(piece)), key=piece.__getitem__)
        kept.append((start + highest, piece[highest]))
    return kept
