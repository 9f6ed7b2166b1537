"""An issuer of tokens: its keys, its JWK set, and tokens that are right until a test says otherwise."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import trustme
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

ISSUER = "https://issuer.example.com"
AUDIENCE = "kafka"
NOW = 1_800_000_000
_CURVES: dict[str, tuple[str, ec.EllipticCurve, int]] = {
    "ES256": ("P-256", ec.SECP256R1(), 32),
    "ES384": ("P-384", ec.SECP384R1(), 48),
    "ES512": ("P-521", ec.SECP521R1(), 66),
}
Tokens = Callable[[], tuple[str, float]]
"""A token, and when it ends."""
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", *_CURVES)


def base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def number(value: int) -> str:
    return base64url(value.to_bytes((value.bit_length() + 7) // 8, "big"))


@cache
def private_key(kind: str, which: int = 0) -> Any:
    """A key of this test run: RSA or an algorithm of a curve; `which` tells several of a kind apart."""
    if kind in _CURVES:
        return ec.generate_private_key(_CURVES[kind][1])
    return rsa.generate_private_key(65537, 2048)


def kind_of(algorithm: str) -> str:
    return algorithm if algorithm in _CURVES else "RSA"


def jwk(kind: str, kid: str, which: int = 0, **more: Any) -> dict[str, Any]:
    """A key as a JWK set has it."""
    public = private_key(kind, which).public_key().public_numbers()
    if kind == "RSA":
        return {"kty": "RSA", "kid": kid, "n": number(public.n), "e": number(public.e), **more}
    curve, _, size = _CURVES[kind]
    x, y = (base64url(value.to_bytes(size, "big")) for value in (public.x, public.y))
    return {"kty": "EC", "kid": kid, "crv": curve, "x": x, "y": y, **more}


def jwks(*keys: Mapping[str, Any]) -> bytes:
    return json.dumps({"keys": list(keys)}).encode()


def everything() -> bytes:
    """A key of each kind, the kind being its id."""
    return jwks(*(jwk(kind, kind) for kind in ("RSA", *_CURVES)))


def signature(algorithm: str, signed: bytes, which: int = 0) -> bytes:
    key: Any = private_key(kind_of(algorithm), which)
    digest: hashes.HashAlgorithm = getattr(hashes, f"SHA{algorithm[2:]}")()
    if algorithm in _CURVES:
        size = _CURVES[algorithm][2]
        r, s = decode_dss_signature(key.sign(signed, ec.ECDSA(digest)))
        return r.to_bytes(size, "big") + s.to_bytes(size, "big")
    pss = padding.PSS(padding.MGF1(digest), digest.digest_size)
    made: bytes = key.sign(signed, pss if algorithm.startswith("PS") else padding.PKCS1v15(), digest)
    return made


def claims(now: float = NOW, **more: Any) -> dict[str, Any]:
    """The claims of a right token. One that is given as None is left out."""
    found = {"sub": "anne", "iss": ISSUER, "aud": AUDIENCE, "iat": now - 10, "exp": now + 3600, **more}
    return {name: value for name, value in found.items() if value is not None}


def token(payload: Mapping[str, Any] | None = None, algorithm: str = "RS256", which: int = 0, **header: Any) -> str:
    """A signed token, its key's id being the key's kind. A field of the header that is given as None is left out."""
    fields = {"alg": algorithm, "typ": "JWT", "kid": kind_of(algorithm), **header}
    first = json.dumps({name: value for name, value in fields.items() if value is not None}).encode()
    return sealed(first, json.dumps(claims() if payload is None else dict(payload)).encode(), algorithm, which)


def fresh(lifetime: float = 600.0, **more: Any) -> tuple[str, float]:
    """A token for now, and when it ends."""
    now = time.time()
    return token(claims(now, **{"exp": now + lifetime, **more}), "ES256"), now + lifetime


def sealed(header: bytes, payload: bytes, algorithm: str = "RS256", which: int = 0) -> str:
    """A token of any two texts, rightly signed."""
    signed = f"{base64url(header)}.{base64url(payload)}"
    return f"{signed}.{base64url(signature(algorithm, signed.encode(), which))}"


def message(text: str, authorization_id: str = "", *extensions: str) -> bytes:
    """The first message of a client."""
    wanted = f"a={authorization_id}" if authorization_id else ""
    pairs = "".join(f"{each}\x01" for each in (f"auth=Bearer {text}", *extensions))
    return f"n,{wanted},\x01{pairs}\x01".encode()


class Provider:
    """An https server on loopback. `answer` returns its next answer: a status and a body."""

    def __init__(self, leaf: trustme.LeafCert) -> None:
        self.answer: Callable[[], tuple[int, bytes]] = lambda: (200, everything())
        self.trickles = False
        """True if it sends bytes one by one, which are no JSON and have no end."""
        self.stop = threading.Event()
        self.asked: list[str] = []
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.asked.append(self.path)
                status, body = provider.answer()
                self.send_response(status)
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", str(1_000_000 if provider.trickles else len(body)))
                self.end_headers()
                if provider.trickles:
                    while not provider.stop.wait(0.01):  # until the client hangs up
                        self.wfile.write(b" ")
                        self.wfile.flush()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]  # clients that hang up
        self._server.socket = _server_context(leaf).wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"https://localhost:{self._server.server_address[1]}/keys"

    def close(self) -> None:
        self.stop.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _server_context(leaf: trustme.LeafCert) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    leaf.configure_cert(context)
    return context


@contextmanager
def provider(leaf: trustme.LeafCert) -> Iterator[Provider]:
    made = Provider(leaf)
    try:
        yield made
    finally:
        made.close()
