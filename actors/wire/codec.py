"""Makes a message's class and, for each version at first use, its encoder and decoder, from schema.json.

The functions are written as Python source and compiled: a run of fixed-size fields becomes one struct call, an
array becomes an inline loop. What lives elsewhere: framing and headers (framing.py), names (messages.py).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Self, TypeAlias

from actors.wire.errors import WireError

# [name, type, [first, last version], [first, last nullable version] | None, default, tag | None]
Row: TypeAlias = list[Any]
Structs: TypeAlias = dict[str, list[Row]]

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
_LENGTH_LIMIT = 0x7FFFFFFF


class Message:
    """A struct of the protocol. Equality is by fields; a field a version lacks has its default."""

    __slots__: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{n}={getattr(self, n)!r}' for n in self.__slots__)})"


class ApiMessage(Message):
    """A whole request or response body."""

    __slots__ = ()
    api_key: ClassVar[int]
    min_version: ClassVar[int]
    max_version: ClassVar[int]
    flexible_from: ClassVar[int]
    _structs: ClassVar[Structs]
    _classes: ClassVar[dict[str, type]]
    _encoders: ClassVar[dict[int, Callable[[Any], bytes]]]
    _decoders: ClassVar[dict[int, Callable[[bytes, int], Any]]]

    def encode(self, version: int) -> bytes:
        """The body's bytes in `version`. Raises WireError if the version is unknown or a value does not fit."""
        encoder = self._encoders.get(version) or _make_encoder(type(self), version)
        try:
            return encoder(self)
        except (struct.error, TypeError, AttributeError, UnicodeEncodeError) as error:
            raise WireError(f"{type(self).__name__} v{version} cannot be encoded: {error}") from error

    @classmethod
    def decode(cls, data: bytes, version: int, offset: int = 0) -> Self:
        """The message at `data[offset:]`. Raises WireError on anything malformed; bytes after it are ignored."""
        decoder = cls._decoders.get(version) or _make_decoder(cls, version)
        try:
            return decoder(data, offset)  # type: ignore[no-any-return]
        except (struct.error, IndexError, UnicodeDecodeError, ValueError) as error:
            raise WireError(f"{cls.__name__} v{version} is malformed: {error}") from error


# --- what the generated code calls ------------------------------------------------------------------------------


def uvarint(value: int) -> bytes:
    """An unsigned varint, as flexible versions use for lengths and tags."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


_SMALL = tuple(uvarint(n) for n in range(1024))


def _length(n: int) -> bytes:
    """The compact length of n items or bytes: n + 1, for 0 means null."""
    return _SMALL[n + 1] if n < 1023 else uvarint(n + 1)


def read_uvarint(data: bytes, pos: int) -> tuple[int, int]:
    """(value, next position). Raises ValueError beyond 32 bits."""
    value = shift = 0
    while True:
        byte = data[pos]
        pos += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if value > 0xFFFFFFFF:
                raise ValueError("varint longer than 32 bits")
            return value, pos
        shift += 7
        if shift > 28:
            raise ValueError("varint longer than 32 bits")


def skip_tags(data: bytes, pos: int) -> int:
    """The position after a tagged-field section of which nothing is known."""
    count, pos = read_uvarint(data, pos)
    for _ in range(count):
        _, pos = read_uvarint(data, pos)
        size, pos = read_uvarint(data, pos)
        pos += size
        if pos > len(data):
            raise ValueError("tagged field reaches beyond the frame")
    return pos


def _short(what: str) -> None:
    raise ValueError(f"{what} reaches beyond the frame or is null where it may not be")


# --- classes ----------------------------------------------------------------------------------------------------

_UNSET: list[Any] = []  # a default that stands for a new empty list


def _literal(row: Row) -> str:
    _, kind, _, _, default, _ = row
    if default == [] and kind.startswith("[]"):
        return "_UNSET"
    if kind == "uuid":
        return repr(bytes.fromhex(default))
    if kind == "bytes" and isinstance(default, str):
        return repr(bytes.fromhex(default))
    return repr(default)


def _make_struct(name: str, rows: list[Row], base: type) -> type:
    arguments = ", ".join(f"{row[0]}={_literal(row)}" for row in rows)
    body = [
        f"        self.{row[0]} = [] if {row[0]} is _UNSET else {row[0]}"
        if _literal(row) == "_UNSET"
        else f"        self.{row[0]} = {row[0]}"
        for row in rows
    ] or ["        pass"]
    star = "*, " if rows else ""
    source = (
        f"class {name}(base):\n    __slots__ = {tuple(row[0] for row in rows)!r}\n"
        f"    def __init__(self, {star}{arguments}):\n" + "\n".join(body) + "\n"
    )
    scope: dict[str, Any] = {"base": base, "_UNSET": _UNSET, "__name__": "actors.wire.messages"}
    exec(source, scope)
    made: type = scope[name]
    return made


def make_message(name: str, spec: dict[str, Any]) -> type[ApiMessage]:
    """The class of one message; its structs are attributes of it."""
    structs: Structs = spec["structs"]
    cls = _make_struct(name, structs[name], ApiMessage)
    classes = {name: cls}
    for nested, rows in structs.items():
        if nested != name:
            classes[nested] = _make_struct(nested, rows, Message)
            classes[nested].__qualname__ = f"{name}.{nested}"
            setattr(cls, nested, classes[nested])
    first, last = spec["versions"]
    for attribute, value in {
        "api_key": spec["api_key"],
        "min_version": first,
        "max_version": last,
        "flexible_from": spec["flexible"],
        "_structs": structs,
        "_classes": classes,
        "_encoders": {},
        "_decoders": {},
    }.items():
        setattr(cls, attribute, value)
    return cls


# --- code generation --------------------------------------------------------------------------------------------


class _Writer:
    """Source being written: lines with an indent, fresh variable names, and the objects the source refers to."""

    def __init__(self, cls: type[ApiMessage], version: int) -> None:
        if not cls.min_version <= version <= cls.max_version:
            raise WireError(f"{cls.__name__} has no version {version} (known: {cls.min_version} to {cls.max_version})")
        self.cls = cls
        self.version = version
        self.flexible = version >= cls.flexible_from
        self.lines: list[str] = []
        self.indent = 1
        self.scope: dict[str, Any] = {
            "_length": _length,
            "uvarint": uvarint,
            "read_uvarint": read_uvarint,
            "skip_tags": skip_tags,
            "_short": _short,
            "_SMALL": _SMALL,
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
        return (row for row in self.cls._structs[name] if row[2][0] <= self.version <= row[2][1])

    def nullable(self, row: Row) -> bool:
        return row[3] is not None and row[3][0] <= self.version <= row[3][1]

    def compile(self, head: str) -> Any:
        source = head + "\n" + "\n".join(self.lines) + "\n"
        exec(compile(source, f"<{self.cls.__name__} v{self.version}>", "exec"), self.scope)
        return self.scope["made"]


def _make_encoder(cls: type[ApiMessage], version: int) -> Callable[[Any], bytes]:
    w = _Writer(cls, version)
    w.add("out = []")
    w.add("add = out.append")
    _encode_struct(w, cls.__name__, "m")
    w.add("return b''.join(out)")
    encoder: Callable[[Any], bytes] = w.compile("def made(m):")
    cls._encoders[version] = encoder
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
        default = "[]" if _literal(row) == "_UNSET" else _literal(row)
        w.add(f"if {value} != {default}:")
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


def _make_decoder(cls: type[ApiMessage], version: int) -> Callable[[bytes, int], Any]:
    w = _Writer(cls, version)
    w.add("end = len(data)")
    _decode_struct(w, cls.__name__, "m")
    w.add("if pos > end: _short('the message')")
    w.add("return m")
    decoder: Callable[[bytes, int], Any] = w.compile("def made(data, pos):")
    cls._decoders[version] = decoder
    return decoder


def _decode_struct(w: _Writer, name: str, var: str) -> None:
    w.scope[f"C_{name}"] = w.cls._classes[name]
    w.scope[f"N_{name}"] = w.cls._classes[name].__new__
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
    for row in w.cls._structs[name]:
        if row[0] not in present or row[5] is not None:
            w.add(f"{var}.{row[0]} = {'[]' if _literal(row) == '_UNSET' else _literal(row)}")
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
        w.add("else: pos = skip_tags(data, pos)")
    elif w.flexible:
        _decode_tags(w, tagged, var)


def _decode_tags(w: _Writer, rows: list[Row], var: str) -> None:
    count, tag, size, stop = (w.fresh(s) for s in ("count", "tag", "size", "stop"))
    w.add(f"{count}, pos = read_uvarint(data, pos)")
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


def _decode_array(w: _Writer, kind: str, target: str, nullable: bool) -> None:
    n = _decode_length(w, "array", "None" if nullable else None, target)
    w.indent += 1
    # An element takes at least a byte: a count beyond the frame is refused before a list of that size is made.
    w.add(f"if {n} > end - pos: _short({target!r})")
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
