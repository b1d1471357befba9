"""The rooms of the package and what they import, drawn from the imports of its files.

A room is a folder directly under `dragoman/`. It stands above all that it imports. An arrow leads to a room that it
imports and that no other arrow leads to by way of a third room. Imports inside of functions count, too.
"""

import ast
from graphlib import TopologicalSorter
from html import escape
from pathlib import Path

PICTURE = Path("house.svg")
"""The picture, in docs/."""
HALVES = {
    "translating": ("#d5ecd4", ("text", "formats", "engine", "decoding", "documents", "bulk", "serving")),
    "both": ("#f3eeb1", ("config", "storage", "metrics", "interop", "report")),
    "learning": ("#cfe3f5", ("data", "data_check", "model", "training", "evaluation", "runs")),
}
"""Colour and rooms of both halves, and of what they share or what looks at both. `system` and `terminal` serve all."""
OTHERS = "#eeeeee", ("cli", "system", "terminal", "native")
ORDER = [room for _, rooms in (*HALVES.values(), OTHERS) for room in rooms]
WIDTH, HEIGHT, ACROSS, DOWN, MARGIN = 104, 34, 128, 84, 24
MIDDLE = 2
"""Column of what belongs to both halves: what translates is left of it, what learns is right of it."""
ASIDE = {"terminal": MIDDLE + 1, "metrics": MIDDLE - 1}
"""Columns of rooms that would hide arrows in the middle."""
STYLE = (
    "text { font: 14px system-ui, sans-serif; fill: #222; text-anchor: middle; dominant-baseline: central } "
    "path { fill: none; stroke: #888; stroke-width: 1.1 } rect { stroke: #444; rx: 5 }"
)
HEAD = (
    '<marker id="end" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
    '<path d="M0 0 L8 4 L0 8"/></marker>'
)


def imported(package: Path) -> dict[str, set[str]]:
    """The other rooms that the files of each room import."""
    rooms = sorted(path.name for path in package.iterdir() if any(path.glob("*.py")))
    graph: dict[str, set[str]] = {}
    for room in rooms:
        names = {name for path in (package / room).rglob("*.py") for name in _imports(path)}
        parts = (name.split(".") for name in names)
        graph[room] = {part[1] for part in parts if part[0] == "dragoman" and part[1:]} & set(rooms) - {room}
    return graph


def _imports(path: Path) -> list[str]:
    names = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def reduced(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """The imports that do not follow from others."""
    below: dict[str, set[str]] = {}
    for room in TopologicalSorter(graph).static_order():
        below[room] = graph[room].union(*(below[target] for target in graph[room]))
    return {
        room: {target for target in targets if not any(target in below[between] for between in targets)}
        for room, targets in graph.items()
    }


def levels(graph: dict[str, set[str]]) -> dict[str, int]:
    """Height of each room, which stands above all that it imports."""
    height: dict[str, int] = {}
    for room in TopologicalSorter(graph).static_order():
        height[room] = max((height[target] + 1 for target in graph[room]), default=0)
    return height


def picture(package: Path) -> str:
    """The drawing as SVG."""
    graph = imported(package)
    height = levels(graph)
    used = {room for room in graph if graph[room] or any(room in targets for targets in graph.values())}
    top = max(height.values())
    place: dict[str, tuple[float, float]] = {}
    for level in range(top + 1):
        rooms = sorted((room for room in used if height[room] == level), key=ORDER.index)
        left, right = ([room for room in rooms if room in HALVES[half][1]] for half in ("translating", "learning"))
        column = dict(zip(left, range(MIDDLE - len(left), MIDDLE), strict=True))
        column |= dict(zip(right, range(MIDDLE + 1, MIDDLE + 1 + len(right)), strict=True))
        for room in rooms:
            x = column.get(room, ASIDE.get(room, MIDDLE))
            place[room] = MARGIN + WIDTH / 2 + x * ACROSS, MARGIN + HEIGHT / 2 + (top - level) * DOWN
    colours = {room: colour for colour, rooms in (*HALVES.values(), OTHERS) for room in rooms}
    arrows = [
        _arrow(place[room], place[target]) for room, targets in reduced(graph).items() for target in sorted(targets)
    ]
    boxes = [_box(room, *at, colours[room]) for room, at in place.items()]
    width, tall = (
        round(max(at[axis] for at in place.values()) + size / 2 + MARGIN) for axis, size in ((0, WIDTH), (1, HEIGHT))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {tall}" width="{width}" height="{tall}">\n'
        f"<title>The rooms of the package and their imports</title>\n<style>{STYLE}</style>\n"
        f"<defs>{HEAD}</defs>\n"
        f'<rect width="{width}" height="{tall}" style="fill: #fff; stroke: none"/>\n'
        + "\n".join([*arrows, *boxes])
        + "\n</svg>\n"
    )


def _arrow(start: tuple[float, float], end: tuple[float, float]) -> str:
    (x, y), (to_x, to_y) = (start[0], start[1] + HEIGHT / 2), (end[0], end[1] - HEIGHT / 2 - 1)
    bend = (to_y - y) / 2
    curve = f"M{x:g} {y:g} C{x:g} {y + bend:g} {to_x:g} {to_y - bend:g} {to_x:g} {to_y:g}"
    return f'<path d="{curve}" marker-end="url(#end)"/>'


def _box(room: str, x: float, y: float, colour: str) -> str:
    rect = f'<rect x="{x - WIDTH / 2:g}" y="{y - HEIGHT / 2:g}" width="{WIDTH}" height="{HEIGHT}" fill="{colour}"/>'
    return f'{rect}<text x="{x:g}" y="{y:g}">{escape(room)}</text>'
