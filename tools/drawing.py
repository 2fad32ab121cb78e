"""Boxes, arrows, cells and text as SVG, for tools/make-diagrams and tools/make-equations.

White ground, the colours of the library's own pictures. The same calls give the same bytes; nothing
but Python's own library is needed.
"""
import math
import os
import re
import sys
from xml.sax.saxutils import escape

PICTURES = os.path.join(os.path.dirname(__file__), "..", "docs", "mechanisms", "pictures")
INK, FAINT, RULE = "#1f2430", "#8a90a0", "#dfe2ea"
# Kinds of boxes: fill and border colour.
KINDS = {
    "data": ("#eef4fb", "#1f66a8"),
    "layer": ("#edf7ef", "#2f8f4e"),
    "attend": ("#fdf0e8", "#d9541e"),
    "memory": ("#f5eefa", "#8b4fb3"),
    "plain": ("#ffffff", "#8a90a0"),
}


def number(value):
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def with_subscripts(text, size):
    """Text with subscripts, for example "W_q x"."""
    parts = re.split(r"_([A-Za-z0-9]+)", escape(text))
    out = parts[0]
    for low, rest in zip(parts[1::2], parts[2::2]):
        drop = number(size * 0.25)
        out += f'<tspan dy="{drop}" font-size="{number(size * 0.75)}">{low}</tspan>'
        if rest:  # a blank at the start of a tspan would be dropped
            blank = f' dx="{number(size * 0.3)}"' if rest[0] == " " else ""
            out += f'<tspan{blank} dy="-{drop}">{rest.lstrip()}</tspan>'
    return out


class Box:
    def __init__(self, x, y, w, h):
        self.x, self.y, self.w, self.h = x, y, w, h

    @property
    def middle(self):
        return self.x + self.w / 2, self.y + self.h / 2

    def edge_towards(self, x, y):
        """Point where the line from the centre to (x, y) leaves the box."""
        cx, cy = self.middle
        dx, dy = x - cx, y - cy
        scale = min(
            self.w / 2 / abs(dx) if dx else math.inf, self.h / 2 / abs(dy) if dy else math.inf
        )
        return cx + dx * scale, cy + dy * scale


class Drawing:
    def __init__(self, width, height, title):
        self.width, self.height, self.title, self.parts = width, height, title, []
        self.text(14, 22, title, size=15, bold=True, anchor="start")

    def text(self, x, y, text, size=13, colour=INK, anchor="middle", bold=False, upright=False):
        weight = ' font-weight="bold"' if bold else ""
        turn = f' transform="rotate(-90 {number(x)} {number(y)})"' if upright else ""
        self.parts.append(
            f'<text x="{number(x)}" y="{number(y)}" font-size="{size}" fill="{colour}" '
            f'text-anchor="{anchor}"{weight}{turn}>{with_subscripts(text, size)}</text>'
        )

    def note(self, x, y, text, anchor="middle"):
        self.text(x, y, text, size=12, colour=FAINT, anchor=anchor)

    def rect(self, x, y, w, h, fill, edge, dashed=False, round_=5):
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(
            f'<rect x="{number(x)}" y="{number(y)}" width="{number(w)}" height="{number(h)}" '
            f'rx="{round_}" fill="{fill}" stroke="{edge}"{dash}/>'
        )

    def box(self, x, y, label, kind="plain", w=110, h=34):
        """A box with one or more lines of text; (x, y) is its centre."""
        fill, edge = KINDS[kind]
        self.rect(x - w / 2, y - h / 2, w, h, fill, edge)
        lines = label.split("\n")
        for i, line in enumerate(lines):
            self.text(x, y + 4.5 + 16 * (i - (len(lines) - 1) / 2), line)
        return Box(x - w / 2, y - h / 2, w, h)

    def frame(self, x, y, w, h, label, top=False):
        self.rect(x, y, w, h, "none", FAINT, dashed=True, round_=8)
        self.note(x + 8, y + 16 if top else y + h - 8, label, anchor="start")

    def circle(self, x, y, text, r=12):
        self.parts.append(
            f'<circle cx="{number(x)}" cy="{number(y)}" r="{r}" fill="#ffffff" stroke="{INK}"/>'
        )
        self.text(x, y + 5, text, size=15)
        return Box(x - r, y - r, 2 * r, 2 * r)

    def line(self, points, colour=INK, width=1.3, arrow=True, opacity=1.0, dashed=False):
        path = "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)
        head = ' marker-end="url(#tip)"' if arrow else ""
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        fade = f' stroke-opacity="{number(opacity)}"' if opacity < 1 else ""
        self.parts.append(
            f'<path d="{path}" fill="none" stroke="{colour}" '
            f'stroke-width="{number(width)}"{head}{dash}{fade}/>'
        )

    def arrow(self, a, b, **style):
        """An arrow from box to box, along the line between their centres."""
        start, end = a.edge_towards(*b.middle), b.edge_towards(*a.middle)
        gap = math.hypot(end[0] - start[0], end[1] - start[1])
        if gap > 6:
            end = tuple(e + (s - e) * 3 / gap for s, e in zip(start, end))
        self.line([start, end], **style)

    def cells(self, x, y, shades, size=16, colour=(31, 102, 168)):
        """A matrix of squares; shades from 0 (white) to 1."""
        for i, row in enumerate(shades):
            for j, shade in enumerate(row):
                mixed = "#" + "".join(f"{round(255 + (c - 255) * shade):02x}" for c in colour)
                self.rect(x + j * size, y + i * size, size, size, mixed, RULE, round_=0)
        return Box(x, y, size * len(shades[0]), size * len(shades))

    def save(self, folder, name):
        w, h = self.width, self.height
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" '
            f'viewBox="0 0 {w} {h}" font-family="Helvetica, Arial, \'Noto Sans\', '
            f'\'DejaVu Sans\', sans-serif">\n<defs><marker id="tip" viewBox="0 0 8 8" refX="7" '
            f'refY="4" markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto">'
            f'<path d="M0 0.5L8 4L0 7.5z" fill="{INK}"/></marker></defs>\n<rect width="{w}" height="{h}" fill="#ffffff"/>\n'
        )
        with open(os.path.join(folder, name), "w", encoding="utf-8") as out:
            out.write(head + "\n".join(self.parts) + "\n</svg>\n")


def draw_all(pictures):
    """Runs each function for the folder named on the command line; default: the pictures of docs/."""
    folder = sys.argv[1] if len(sys.argv) > 1 else PICTURES
    os.makedirs(folder, exist_ok=True)
    for draw in pictures:
        draw(folder)
