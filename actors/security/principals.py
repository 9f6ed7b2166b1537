"""The subject of a certificate: one line of text, and the rules that make a principal's name of it.

The text is RFC 2253's as Java writes it, so that ACLs written for Kafka mean the same here.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from actors import OutsideError
from actors.security.acl import ANONYMOUS

Pattern: TypeAlias = Any
"""One of RE2's, which has no types."""
Match: TypeAlias = Any
DN_CHARACTERS_MAX: Final = 1024
"""The longest name that rules are tried on. The time that a pattern takes grows with the length, and no faster."""
_SHOWN: Final = 64
_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_ESCAPED: Final = re.compile(r'[,=+<>#;"\\]')
_BLANKS: Final = " \r"  # escaped at both ends, as Java does
_UTF8, _PRINTABLE, _T61, _IA5, _GENERAL, _BMP = 12, 19, 20, 22, 27, 30
_TEXTS: Final = frozenset((_UTF8, _PRINTABLE, _T61, _IA5, _GENERAL, _BMP))
_VERSION: Final = 0xA0  # of a certificate; left out in the first


class PrincipalError(OutsideError, ValueError):
    """A certificate whose subject cannot be read, is too long, or is covered by no rule."""


# --- the subject's text ---


def subject_of(certificate: bytes) -> str:
    """The subject of a certificate in DER, the most specific part first. Raises PrincipalError."""
    try:
        (_, signed), *_ = _parts(_only(certificate))
        fields = [field for field in _parts(signed) if field[0] != _VERSION]
        return distinguished_name(fields[4][1])  # serial number, algorithm, issuer, validity, subject
    except (IndexError, ValueError) as error:
        raise PrincipalError("the subject of the certificate cannot be read") from error


def distinguished_name(rdns: bytes) -> str:
    """The text of a name, given as what is in its SEQUENCE. Raises ValueError, IndexError if it is not DER."""
    texts = ["+".join(_attribute(attribute) for _, attribute in _parts(rdn)) for _, rdn in _parts(rdns)]
    return ",".join(reversed(texts))


def _attribute(data: bytes) -> str:
    (_, oid), (tag, value) = _parts(data)
    if len(oid) > 127:
        raise ValueError("an object identifier of this length has no use")
    dotted = _dotted(oid)
    keyword = _KEYWORDS.get(dotted)
    text = _decoded(tag, value) if keyword else None
    if text is None:  # the whole value, in hex: it ends the attribute
        return f"{keyword or dotted}=#{data[2 + len(oid) :].hex()}"
    return f"{keyword}={_escaped(text)}"


def _decoded(tag: int, value: bytes) -> str | None:
    """Java takes the bytes of all kinds of text for UTF-8. Other bytes are shown in hex, as other types are."""
    try:
        return value.decode() if tag in _TEXTS else None
    except UnicodeDecodeError:
        return None


def _escaped(text: str) -> str:
    inner = text.strip(_BLANKS)
    at = text.index(inner) if inner else len(text)
    before, after = text[:at], text[at + len(inner) :]
    inner = _ESCAPED.sub(r"\\\g<0>", inner).replace("\0", "\\00")
    return "".join(f"\\{blank}" for blank in before) + inner + "".join(f"\\{blank}" for blank in after)


# --- DER ---


def _only(data: bytes) -> bytes:
    ((_, value),) = _parts(data)
    return value


def _parts(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The tags and values that follow one another. Raises ValueError, IndexError."""
    at = 0
    while at < len(data):
        tag, length, at = data[at], data[at + 1], at + 2
        if length >= 128:
            size = length - 128
            length, at = int.from_bytes(data[at : at + size], "big"), at + size
            if not size:
                raise ValueError("a length is missing")
        if at + length > len(data):
            raise ValueError("a value reaches beyond its end")
        yield tag, data[at : at + length]
        at += length


def _dotted(oid: bytes) -> str:
    numbers, number = [], 0
    for byte in oid:
        number = number << 7 | byte & 127
        if byte < 128:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


# --- rules ---


@dataclass(frozen=True, slots=True)
class _Rule:
    """Names that match the pattern as a whole become the replacement; the case is "L", "U" or "" (as it is)."""

    pattern: Pattern
    replacement: str
    case: str

    def apply(self, name: str) -> str | None:
        match = self.pattern.fullmatch(name)
        if match is None:
            return None
        result = _replaced(self.replacement, match)
        return {"L": result.lower(), "U": result.upper()}.get(self.case, result)


@dataclass(frozen=True, slots=True)
class MappingRules:
    """`ssl.principal.mapping.rules`: the first rule that applies makes the principal's name."""

    rules: tuple[_Rule | None, ...]
    """None is the rule DEFAULT."""

    @classmethod
    def parse(cls, text: str) -> MappingRules:
        """The rules that a setting lists. Raises ValueError, which names the rule that is none."""
        return cls(tuple(_rules(text)))

    def principal(self, name: str) -> str:
        """The principal of a certificate's subject. Raises PrincipalError."""
        if len(name) > DN_CHARACTERS_MAX:
            raise PrincipalError(f"the certificate's subject has more than {DN_CHARACTERS_MAX} characters")
        for rule in self.rules:
            result = name if rule is None else rule.apply(name)
            if result is not None:
                return f"User:{result}"
        raise PrincipalError(f"no rule of ssl.principal.mapping.rules applies to {name[:_SHOWN]!r}")

    def principal_of(self, certificate: bytes | None) -> str:
        """The principal of whoever has shown a certificate (in DER), or none. Raises PrincipalError."""
        return ANONYMOUS if certificate is None else self.principal(subject_of(certificate))


_PART: Final = r"((?:\\.|[^\\/])*)"
_UNICODE: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\u([0-9A-Fa-f]{4})")
_RULE: Final = re.compile(rf"\s*(?:(DEFAULT)|RULE:{_PART}/{_PART}/([LU]?)|)\s*(?:,|\Z)", re.DOTALL)


def _rules(text: str) -> Iterator[_Rule | None]:
    at = 0
    while at < len(text):
        match = _RULE.match(text, at)
        if match is None:
            raise ValueError(
                f"{text[at:]!r} does not begin with DEFAULT or RULE:pattern/replacement/, with L or U behind"
            )
        at = match.end()
        default, pattern, replacement, case = match.groups()
        if default:
            yield None
        elif pattern is not None:
            yield _Rule(_compiled(pattern.replace("\\/", "/")), replacement, case)


def _compiled(pattern: str) -> Pattern:
    """The pattern, if it means the same to Java, to Python's `re`, which is read alone, and to RE2, which runs.

    A certificate's owner chooses the text, and `re` takes exponential time for some. RE2 takes linear time.
    """
    try:
        import re2  # only brokers with rules need it
    except ImportError as error:
        raise ValueError(f"rules need a package that is not installed ({error}): pip install 'coterie[tls]'") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a pattern whose meaning may change has another one in Java
            re.compile(pattern)
    except (re.error, Warning) as error:
        raise ValueError(f"RULE:{pattern}/ has a pattern that Java reads otherwise, or not at all: {error}") from None
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(_UNICODE.sub(r"\1\\x{\2}", pattern), options)
    except re2.error as error:
        raise ValueError(
            f"RULE:{pattern}/ has a pattern that cannot be tried in linear time ({_text_of(error)}): write it without "
            "what looks ahead or behind, refers back, or does not give back what it took"
        ) from None


def _text_of(error: Exception) -> str:
    said = error.args[0] if error.args else ""
    return said.decode(errors="replace") if isinstance(said, bytes) else str(said)


def _replaced(replacement: str, match: Match) -> str:
    """`$1` is the first group, as many digits as make a group that there is. A backslash takes meaning away."""
    found, at = [], 0
    while at < len(replacement):
        character, at = replacement[at], at + 1
        if character == "\\" and at < len(replacement):
            found.append(replacement[at])
            at += 1
        elif character == "$" and (group := _group(replacement[at:], match)):
            found.append(match[int(group)] or "")
            at += len(group)
        else:
            found.append(character)
    return "".join(found)


def _group(text: str, match: Match) -> str:
    """The number at the beginning of a text, of a group that there is; empty if there is none."""
    digits = re.match(r"[0-9]*", text)[0]  # type: ignore[index]  # it always matches
    groups = match.re.groups
    return next((digits[:n] for n in range(len(digits), 0, -1) if int(digits[:n]) <= groups), "")
