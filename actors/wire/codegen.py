"""Writes the encoder or decoder of one version of a message as Python source, and compiles it.

A run of fixed-size fields becomes one struct call, an array an inline loop.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from actors.wire.errors import WireError
from actors.wire.varints import SMALL, compact_length, read_uvarint, short, skip_counted, too_many, uvarint

# [name, type, [first, last version], [first, last nullable version] | None, default, tag | None]
Row: TypeAlias = list[Any]
Structs: TypeAlias = Mapping[str, list[Row]]

_FIXED = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}


@dataclass(frozen=True, slots=True)
class Layout:
    """A message of schema.json, and the classes of its structs by name. The message itself is one of them."""

    name: str
    versions: tuple[int, int]
    """The first and the last version."""
    flexible_from: int
    structs: Structs
    classes: Mapping[str, type]


def default(row: Row) -> str:
    """A field's default, as source code."""
    _, kind, _, _, value, _ = row
    if kind == "uuid" or (kind == "bytes" and isinstance(value, str)):
        return repr(bytes.fromhex(value))
    return repr(value)


class _Writer:
    """Source being written: lines with an indent, fresh variable names, and the objects the source refers to."""

    def __init__(self, layout: Layout, version: int) -> None:
        first, last = layout.versions
        if not first <= version <= last:
            raise WireError(f"{layout.name} has no version {version} (known: {first} to {last})")
        self.layout = layout
        self.version = version
        self.flexible = version >= layout.flexible_from
        self.lines: list[str] = []
        self.indent = 1
        self.scope: dict[str, Any] = {
            "_length": compact_length,
            "uvarint": uvarint,
            "read_uvarint": read_uvarint,
            "_skip": skip_counted,
            "_short": short,
            "_too_many": too_many,
            "_SMALL": SMALL,
        }
        self._count = 0

    def add(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    def fresh(self, stem: str) -> str:
        self._count += 1
        return f"{stem}{self._count}"

    def packer(self, layout: str, method: str) -> str:
        name = f"_{method}_{layout.replace('?', 'B0')}"
        self.scope[name] = getattr(struct.Struct(">" + layout), method)
        return name

    def rows(self, name: str) -> Iterable[Row]:
        return (row for row in self.layout.structs[name] if row[2][0] <= self.version <= row[2][1])

    def nullable(self, row: Row) -> bool:
        return row[3] is not None and row[3][0] <= self.version <= row[3][1]

    def compile(self, head: str) -> Any:
        source = head + "\n" + "\n".join(self.lines) + "\n"
        exec(compile(source, f"<{self.layout.name} v{self.version}>", "exec"), self.scope)
        return self.scope["made"]


def make_encoder(layout: Layout, version: int) -> Callable[[Any], list[bytes]]:
    """A function from a message to its bytes, in parts. Raises WireError for an unknown version."""
    w = _Writer(layout, version)
    w.add("out = []")
    w.add("add = out.append")
    _encode_struct(w, layout.name, "m")
    w.add("return out")
    encoder: Callable[[Any], list[bytes]] = w.compile("def made(m):")
    return encoder


def _encode_struct(w: _Writer, name: str, var: str) -> None:
    run: list[tuple[str, str]] = []

    def flush() -> None:
        if run:
            pack = w.packer("".join(layout for layout, _ in run), "pack")
            w.add(f"add({pack}({', '.join(value for _, value in run)}))")
            run.clear()

    tagged = []
    for row in w.rows(name):
        if row[5] is not None:
            tagged.append(row)
        elif row[1] in _FIXED:
            run.append((_FIXED[row[1]], f"{var}.{row[0]}"))
        else:
            flush()
            _encode_value(w, row[1], f"{var}.{row[0]}", w.nullable(row))
    if w.flexible and not tagged:
        run.append(("b", "0"))
    flush()
    if w.flexible and tagged:
        _encode_tags(w, tagged, var)


def _encode_tags(w: _Writer, rows: list[Row], var: str) -> None:
    tags = w.fresh("tags")
    w.add(f"{tags} = []")
    for row in sorted(rows, key=lambda r: r[5]):
        value = f"{var}.{row[0]}"
        w.add(f"if {value} != {default(row)}:")
        w.indent += 1
        outer = w.fresh("outer")
        w.add(f"{outer} = out; out = []; add = out.append")
        if row[1] in _FIXED:
            w.add(f"add({w.packer(_FIXED[row[1]], 'pack')}({value}))")
        else:
            _encode_value(w, row[1], value, w.nullable(row))
        w.add(f"body = b''.join(out); out = {outer}; add = out.append")
        w.add(f"{tags}.append(uvarint({row[5]}) + uvarint(len(body)) + body)")
        w.indent -= 1
    w.add(f"add(uvarint(len({tags}))); out.extend({tags})")


def _encode_value(w: _Writer, kind: str, value: str, nullable: bool) -> None:
    if kind.startswith("[]"):
        _encode_array(w, kind[2:], value, nullable)
    elif kind in ("string", "bytes", "records"):
        _encode_bytes(w, kind, value, nullable or kind == "records")
    elif nullable:
        w.add(f"if {value} is None: add(b'\\xff')")
        w.add("else:")
        w.indent += 1
        w.add("add(b'\\x01')")
        _encode_struct(w, kind, value)
        w.indent -= 1
    else:
        _encode_struct(w, kind, value)


def _null_bytes(w: _Writer, kind: str) -> str:
    return "b'\\x00'" if w.flexible else "b'\\xff\\xff'" if kind == "string" else "b'\\xff\\xff\\xff\\xff'"


def _encode_bytes(w: _Writer, kind: str, value: str, nullable: bool) -> None:
    v = w.fresh("v")
    w.add(f"{v} = {value}")
    if nullable:
        w.add(f"if {v} is None: add({_null_bytes(w, kind)})")
        w.add("else:")
        w.indent += 1
    if kind == "string":
        w.add(f"{v} = {v}.encode()")
    if w.flexible:
        w.add(f"add(_length(len({v}))); add({v})")
    else:
        w.add(f"add({w.packer('h' if kind == 'string' else 'i', 'pack')}(len({v}))); add({v})")
    if nullable:
        w.indent -= 1


def _encode_array(w: _Writer, kind: str, value: str, nullable: bool) -> None:
    v, item = w.fresh("v"), w.fresh("x")
    w.add(f"{v} = {value}")
    if nullable:
        w.add(f"if {v} is None: add({_null_bytes(w, 'array')})")
        w.add("else:")
        w.indent += 1
    w.add(f"add(_length(len({v})))" if w.flexible else f"add({w.packer('i', 'pack')}(len({v})))")
    w.add(f"for {item} in {v}:")
    w.indent += 1
    if kind in _FIXED:
        w.add(f"add({w.packer(_FIXED[kind], 'pack')}({item}))")
    else:
        _encode_value(w, kind, item, False)
    w.indent -= 1
    if nullable:
        w.indent -= 1


def make_decoder(layout: Layout, version: int) -> Callable[[bytes, int, int], Any]:
    """A function from bytes, a position, and how many entries lists may have in all, to a message.

    Raises WireError for an unknown version.
    """
    w = _Writer(layout, version)
    w.add("end = len(data)")
    _decode_struct(w, layout.name, "m")
    w.add("if pos > end: _short('the message')")
    w.add("return m")
    decoder: Callable[[bytes, int, int], Any] = w.compile("def made(data, pos, left):")
    return decoder


def _decode_struct(w: _Writer, name: str, var: str) -> None:
    w.scope[f"C_{name}"] = w.layout.classes[name]
    w.scope[f"N_{name}"] = w.layout.classes[name].__new__
    w.add(f"{var} = N_{name}(C_{name})")
    run: list[tuple[str, str]] = []

    def flush() -> None:
        if run:
            layout = "".join(code for code, _ in run)
            comma = "," if len(run) == 1 else ""
            w.add(f"{', '.join(target for _, target in run)}{comma} = {w.packer(layout, 'unpack_from')}(data, pos)")
            w.add(f"pos += {struct.calcsize('>' + layout)}")
            run.clear()

    present = {row[0] for row in w.rows(name)}
    tagged = []
    for row in w.layout.structs[name]:
        if row[0] not in present or row[5] is not None:
            w.add(f"{var}.{row[0]} = {default(row)}")
            if row[0] in present:
                tagged.append(row)
        elif row[1] in _FIXED:
            run.append((_FIXED[row[1]], f"{var}.{row[0]}"))
        else:
            flush()
            _decode_value(w, row[1], f"{var}.{row[0]}", w.nullable(row))
    flush()
    if w.flexible and not tagged:
        w.add("if data[pos] == 0: pos += 1")
        w.add("else: pos, left = _skip(data, pos, left)")
    elif w.flexible:
        _decode_tags(w, tagged, var)


def _decode_tags(w: _Writer, rows: list[Row], var: str) -> None:
    count, tag, size, stop = (w.fresh(s) for s in ("count", "tag", "size", "stop"))
    w.add(f"{count}, pos = read_uvarint(data, pos)")
    _count_entries(w, count)
    w.add(f"for _ in range({count}):")
    w.indent += 1
    w.add(f"{tag}, pos = read_uvarint(data, pos)")
    w.add(f"{size}, pos = read_uvarint(data, pos)")
    w.add(f"{stop} = pos + {size}")
    w.add(f"if {stop} > end: _short('a tagged field')")
    for row in rows:
        w.add(f"if {tag} == {row[5]}:")
        w.indent += 1
        if row[1] in _FIXED:
            w.add(f"{var}.{row[0]}, = {w.packer(_FIXED[row[1]], 'unpack_from')}(data, pos)")
        else:
            _decode_value(w, row[1], f"{var}.{row[0]}", w.nullable(row))
        w.indent -= 1
    w.add(f"pos = {stop}")
    w.indent -= 1


def _decode_length(w: _Writer, kind: str, null: str | None, target: str) -> str:
    """Reads a length into a variable and opens the branch in which it is not null. Returns the variable."""
    n = w.fresh("n")
    if w.flexible:
        w.add(f"{n} = data[pos]; pos += 1")
        w.add(f"if {n} > 127: {n}, pos = read_uvarint(data, pos - 1)")
        w.add(f"{n} -= 1")
    else:
        w.add(f"{n}, = {w.packer('h' if kind == 'string' else 'i', 'unpack_from')}(data, pos)")
        w.add(f"pos += {2 if kind == 'string' else 4}")
    if null is None:
        w.add(f"if {n} < 0: _short({target!r})")
        w.add("else:")
    else:
        w.add(f"if {n} < 0: {target} = {null}")
        w.add("else:")
    return n


def _decode_value(w: _Writer, kind: str, target: str, nullable: bool) -> None:
    if kind.startswith("[]"):
        _decode_array(w, kind[2:], target, nullable)
    elif kind in ("string", "bytes", "records"):
        n = _decode_length(w, kind, "None" if nullable or kind == "records" else None, target)
        w.indent += 1
        stop = w.fresh("stop")
        w.add(f"{stop} = pos + {n}")
        w.add(f"if {stop} > end: _short({target!r})")
        w.add(f"{target} = data[pos:{stop}]{'.decode()' if kind == 'string' else ''}; pos = {stop}")
        w.indent -= 1
    else:
        var = w.fresh("s")
        if nullable:
            w.add("pos += 1")
            w.add(f"if data[pos - 1] > 127: {target} = None")
            w.add("else:")
            w.indent += 1
        _decode_struct(w, kind, var)
        w.add(f"{target} = {var}")
        if nullable:
            w.indent -= 1


def _count_entries(w: _Writer, count: str) -> None:
    w.add(f"left -= {count}")
    w.add("if left < 0: _too_many()")


def _decode_array(w: _Writer, kind: str, target: str, nullable: bool) -> None:
    n = _decode_length(w, "array", "None" if nullable else None, target)
    w.indent += 1
    # An element takes at least a byte: a count beyond the frame is refused before a list of that size is made.
    w.add(f"if {n} > end - pos: _short({target!r})")
    _count_entries(w, n)
    items = w.fresh("items")
    if kind in _FIXED:
        size = struct.calcsize(">" + _FIXED[kind])
        w.scope["struct_unpack_from"] = struct.unpack_from
        w.add(f"if {n} * {size} > end - pos: _short({target!r})")
        if kind == "uuid":
            w.add(f"{items} = [data[i:i + 16] for i in range(pos, pos + 16 * {n}, 16)]")
        else:
            w.add(f"{items} = list(struct_unpack_from('>%d{_FIXED[kind]}' % {n}, data, pos))")
        w.add(f"pos += {n} * {size}")
    else:
        item = w.fresh("x")
        w.add(f"{items} = []")
        w.add(f"for _ in range({n}):")
        w.indent += 1
        if kind == "string":
            _decode_value(w, kind, item, False)
        else:
            _decode_struct(w, kind, item)
        w.add(f"{items}.append({item})")
        w.indent -= 1
    w.add(f"{target} = {items}")
    w.indent -= 1
