"""Subjects as text and mapping rules: SECURITY.md, XA-50 to XA-53. Java 17 prints the same texts."""

from __future__ import annotations

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID, ObjectIdentifier
from hypothesis import given
from hypothesis import strategies as st

from actors.security.acl import ANONYMOUS
from actors.security.principals import (
    DN_CHARACTERS_MAX,
    MappingRules,
    PrincipalError,
    distinguished_name,
    subject_of,
)

EXAMPLE = "CN=Duke,OU=Ray Users,O=Example\\, Inc.,C=DE"
CN = NameOID.COMMON_NAME


def attribute(oid: ObjectIdentifier, value: str, kind: _ASN1Type = _ASN1Type.UTF8String) -> x509.NameAttribute:
    return x509.NameAttribute(oid, value, _type=kind, _validate=False)


def name(*attributes: x509.NameAttribute) -> str:
    """The text of a name with one attribute in each part."""
    return distinguished_name(_inside(x509.Name(attributes).public_bytes()))


def value(data: str, oid: str = "550403") -> str:
    """The text of a name whose one value has these bytes; the type is CN unless it is given."""
    content = bytes.fromhex(data)
    for tag, before in ((0x30, bytes.fromhex("06%02x" % (len(oid) // 2) + oid)), (0x31, b"")):
        content = bytes((tag, len(before + content))) + before + content
    return distinguished_name(content)


def _inside(sequence: bytes) -> bytes:
    return sequence[2:] if sequence[1] < 128 else sequence[2 + sequence[1] - 128 :]


@pytest.mark.conformance("XA-50")
def test_the_subject_has_its_most_specific_part_first() -> None:
    country, organization = attribute(NameOID.COUNTRY_NAME, "DE"), attribute(NameOID.ORGANIZATION_NAME, "Example, Inc.")
    unit, common = attribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "Ray Users"), attribute(CN, "Duke")
    assert name(country, organization, unit, common) == EXAMPLE
    assert name(common, unit, organization, country) == "C=DE,O=Example\\, Inc.,OU=Ray Users,CN=Duke"


@pytest.mark.conformance("XA-50")
def test_only_nine_types_have_short_names() -> None:
    ia5 = _ASN1Type.IA5String
    assert name(
        attribute(NameOID.DOMAIN_COMPONENT, "com", ia5),
        attribute(NameOID.USER_ID, "u1"),
        attribute(NameOID.STREET_ADDRESS, "s t"),
        attribute(NameOID.LOCALITY_NAME, "l"),
        attribute(NameOID.STATE_OR_PROVINCE_NAME, "st"),
    ) == ("ST=st,L=l,STREET=s t,UID=u1,DC=com")
    assert name(attribute(NameOID.EMAIL_ADDRESS, "a@b.c", ia5)) == "1.2.840.113549.1.9.1=#16056140622e63"
    assert name(attribute(NameOID.SERIAL_NUMBER, "77"), attribute(NameOID.SURNAME, "S")) == (
        "2.5.4.4=#0c0153,2.5.4.5=#0c023737"
    )
    assert value("13 01 61", oid="883703") == "2.999.3=#130161"


@pytest.mark.conformance("XA-50")
@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        (' a,b=c+d<e>f#g;h"i\\j ', '\\ a\\,b\\=c\\+d\\<e\\>f\\#g\\;h\\"i\\\\j\\ '),
        ("  two  inside  ", "\\ \\ two  inside\\ \\ "),
        ("   ", "\\ \\ \\ "),
        ("\r x \r", "\\\r\\ x\\ \\\r"),
        ("\t x\n", "\t x\n"),
        ("nul\0", "nul\\00"),
        ("x,OU=admins", "x\\,OU\\=admins"),
        ("ünï日本😀", "ünï日本😀"),
        ("a'()-./:?*@&", "a'()-./:?*@&"),
    ],
)
def test_what_could_be_taken_for_something_else_is_escaped(text: str, escaped: str) -> None:
    assert name(attribute(CN, text)) == f"CN={escaped}"


@pytest.mark.conformance("XA-50")
def test_parts_of_several_attributes_are_joined_in_their_order() -> None:
    both = x509.RelativeDistinguishedName([attribute(CN, "a"), attribute(NameOID.ORGANIZATION_NAME, "c")])
    assert distinguished_name(_inside(x509.Name([both]).public_bytes())) == "CN=a+O=c"


@pytest.mark.conformance("XA-50")
@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("0c00", ""),
        ("1403743631", "t61"),
        ("1b0367656e", "gen"),
        ("1e0400610062", "\\00a\\00b"),  # Java reads BMPString so
        ("1203313220", "#1203313220"),
        ("1a03766973", "#1a03766973"),
        ("1c0400000061", "#1c0400000061"),
        ("020105", "#020105"),
        ("03020061", "#03020061"),
    ],
)
def test_other_kinds_of_values(data: str, text: str) -> None:
    assert value(data) == f"CN={text}"


def test_bytes_that_are_no_text_are_shown_in_hex() -> None:
    """Java puts the same replacement character for all of them, so that two names could look alike."""
    assert value("0c02fffe") == "CN=#0c02fffe"
    assert value("1402e961") == "CN=#1402e961"


@pytest.mark.conformance("XA-50")
def test_the_subject_of_a_whole_certificate() -> None:
    certificate = trustme.CA().issue_cert("host.example", common_name="Duke, the first", organization_name="Org")
    der = x509.load_pem_x509_certificate(certificate.cert_chain_pems[0].bytes()).public_bytes(Encoding.DER)
    assert subject_of(der).startswith("CN=Duke\\, the first,OU=")
    assert subject_of(der).endswith(",O=Org")


@given(st.binary(max_size=80))
def test_bytes_that_are_no_certificate_are_refused(data: bytes) -> None:
    with pytest.raises(PrincipalError):
        subject_of(data)


# --- rules ---


@pytest.mark.conformance("XA-51", "XA-52")
@pytest.mark.parametrize(
    ("rules", "subject", "principal"),
    [
        ("RULE:^CN=([^,]+),OU=Ray Users,.*$/$1/L,DEFAULT", "CN=Duke,OU=Ray Users,C=DE", "User:duke"),
        ("RULE:^CN=([^,]+),OU=Ray Users,.*$/$1/L,DEFAULT", "CN=Duke,OU=Others,C=DE", "User:CN=Duke,OU=Others,C=DE"),
        ("RULE:^CN=([^,]+),.*OU=([^,]+).*$/$1@$2/U", "CN=a,OU=b", "User:A@B"),
        ("RULE:^CN=([^,]+).*$/$1-$2/", "CN=a,C=DE", "User:a-$2"),
        ("DEFAULT", EXAMPLE, f"User:{EXAMPLE}"),
        (" , RULE:CN=x/y/ , ,DEFAULT, ", "CN=x", "User:y"),
        (r"RULE:CN=a\/(.)/$1\/$1/", "CN=a/b", "User:b/b"),
        (r"RULE:CN=(.)/\$1$0/", "CN=a", "User:$1CN=a"),
        ("RULE:CN=(.)(.)?/$1$2$12/", "CN=a", "User:aa2"),
        ("RULE:CN=(.*)/x/", "CN=", "User:x"),  # once, though the pattern matches the empty end, too
        ("RULE:CN=.,(.*)/$1/", "CN=a,b,c", "User:b,c"),
        (r"RULE:CN=(\d{1,3})/$1$/", "CN=12", "User:12$"),
    ],
)
def test_the_first_rule_that_matches_the_whole_name_makes_the_principal(
    rules: str, subject: str, principal: str
) -> None:
    assert MappingRules.parse(rules).principal(subject) == principal


@pytest.mark.conformance("XA-52")
def test_a_name_to_which_no_rule_applies_has_no_principal() -> None:
    for rules in ("RULE:CN=a/b/", ""):
        with pytest.raises(PrincipalError, match="no rule"):
            MappingRules.parse(rules).principal("CN=ab")


@pytest.mark.conformance("XA-51")
@pytest.mark.parametrize(
    "rules",
    ["default", "DEFAULT/L", "RULE:a/b", "RULE:a/b/L/U", "RULE:a/b/LU", "RULE:a/b/l", "RULE:a", "DEFAULT DEFAULT", "x"],
)
def test_what_is_no_rule_is_an_error(rules: str) -> None:
    with pytest.raises(ValueError, match="does not begin with"):
        MappingRules.parse(rules)


@pytest.mark.conformance("XA-53")
@pytest.mark.parametrize("pattern", [r"(?<n>a)", r"\p{L}+", r"\Qa.b\E", r"[a-z&&[^b]]", r"[[a]b]", r"a(", r"\z", r"\h"])
def test_a_pattern_of_javas_that_python_lacks_is_an_error_that_names_the_rule(pattern: str) -> None:
    with pytest.raises(ValueError, match="RULE:") as error:
        MappingRules.parse(f"RULE:{pattern}/x/")
    assert pattern in str(error.value)


@pytest.mark.conformance("XA-53")
@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("(a|aa)+b", "a" * DN_CHARACTERS_MAX),
        ("(a+)+b", "a" * DN_CHARACTERS_MAX),
        ("(a*)*b", "a" * DN_CHARACTERS_MAX),
        ("(.*,)*OU=(.*,)*b", "OU=a," * 200),
        ("(.*)=(.*)=(.*)=(.*)=(.*)=(.*)b", "=" * DN_CHARACTERS_MAX),
        ("(a?){200}a{200}", "a" * 399 + "b"),
    ],
)
def test_a_name_that_its_owner_chose_held_up_the_broker(pattern: str, name: str) -> None:
    """840 characters took Python's `re` eight seconds, and more took years: each pattern takes linear time."""
    rules = MappingRules.parse(f"RULE:{pattern}/x/,DEFAULT")
    assert rules.principal(name) == f"User:{name}"


@pytest.mark.conformance("XA-53")
@pytest.mark.parametrize("pattern", ["(?=a)a", "(?!b).*", "(?<=a)b", r"(a)\1", "a*+", "(?>a)b", "(a{9}){900}"])
def test_a_pattern_that_needs_more_than_linear_time_is_an_error_that_names_the_rule(pattern: str) -> None:
    with pytest.raises(ValueError, match="linear time") as error:
        MappingRules.parse(f"RULE:{pattern}/x/")
    assert pattern in str(error.value)


@pytest.mark.conformance("XA-51")
@pytest.mark.parametrize(
    ("pattern", "name", "found"),
    [
        (r"CN=(\w+)", "CN=duke_1", "duke_1"),
        (r"CN=([\w.-]+?)(@.*)?", "CN=a.b@c", "a.b"),
        (r"(?i)cn=(.*?),OU=(?:a|b)(?:,.*)?", "CN=x,OU=B,C=DE", "x"),
        (r"^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$", "OU=x,cn=a.b,C=DE", "a.b"),
        (r"CN=(.*?), *OU=.*", "CN=\u00e9,OU=y", "\u00e9"),
        (r"CN=(\u00e9|\x41)", "CN=\u00e9", "\u00e9"),
        (r"CN=(\\u00e9)", r"CN=\u00e9", r"\u00e9"),
        (r"CN=([^\d\s]{2,3})\b.*", "CN=abc-1", "abc"),
    ],
)
def test_patterns_mean_what_they_mean_to_java(pattern: str, name: str, found: str) -> None:
    assert MappingRules.parse(f"RULE:{pattern}/$1/").principal(name) == f"User:{found}"


@pytest.mark.conformance("XA-53")
def test_a_name_that_is_too_long_is_refused_before_any_pattern_runs() -> None:
    rules = MappingRules.parse("RULE:(a|aa)+b/x/,DEFAULT")
    with pytest.raises(PrincipalError, match="more than 1024"):
        rules.principal("a" * (DN_CHARACTERS_MAX + 1))
    assert MappingRules.parse("DEFAULT").principal("a" * DN_CHARACTERS_MAX)


def test_whoever_shows_no_certificate_is_anonymous() -> None:
    assert MappingRules.parse("DEFAULT").principal_of(None) == ANONYMOUS
