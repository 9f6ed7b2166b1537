"""TLS on a client's connection: to the socket it is the protocol, to the connection it is the transport.

Not the event loop's own TLS, for two reasons: `get_write_buffer_size` counts all that has not left this process, which
acks=0 relies on, and what goes wrong is known exactly, which the error texts rely on.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from datetime import datetime
from typing import Final, cast

from actors.client.errors import HungUpError, KafkaError, SslAuthenticationError
from actors.client.net.transport import NOT_CONNECTED, Transport
from actors.security.tls_memory import TlsMemory

log = logging.getLogger(__name__)

_BUFFER_BYTES: Final = 64 << 10
_NOT_YET_VALID, _EXPIRED, _OTHER_NAME, _OTHER_ADDRESS = 9, 10, 62, 64  # X509_V_ERR_... of OpenSSL


class TlsTransport(asyncio.BufferedProtocol):
    """`ready` has no result, or the error of the handshake. `inner` hears nothing before it is done."""

    def __init__(self, context: ssl.SSLContext, host: str, inner: asyncio.BufferedProtocol) -> None:
        self._host = host
        self._inner = inner
        self._memory = memory = TlsMemory(context, host=host.rstrip("."))
        self._incoming, self._outgoing, self._tls = memory.incoming, memory.outgoing, memory.tls
        self._raw = bytearray(_BUFFER_BYTES)
        self._transport: Transport = NOT_CONNECTED
        self._open = False
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    # --- what the connection uses -------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Send data; all of it is taken."""
        if self._open and data:
            try:
                self._memory.encrypt(data)
            except ssl.SSLError as error:
                self._break(error)
        self._flush()

    def get_write_buffer_size(self) -> int:
        """The number of bytes that have not left this process."""
        return self._transport.get_write_buffer_size()

    def abort(self) -> None:
        """Close at once."""
        self._open = False
        self._transport.abort()

    # --- what the event loop calls ------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(Transport, transport)
        self._shake_hands()

    def get_buffer(self, sizehint: int) -> memoryview:
        """The buffer for the socket's bytes (asyncio.BufferedProtocol)."""
        return memoryview(self._raw)

    def buffer_updated(self, nbytes: int) -> None:
        self._incoming.write(memoryview(self._raw)[:nbytes])
        if not self.ready.done():
            self._shake_hands()
        if self._open:
            self._deliver()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ready.done():
            what = f"the connection ended in the TLS handshake{f' ({exc})' if exc else ''}"
            hint = "the broker may not speak TLS at this port (security_protocol=PLAINTEXT or SASL_PLAINTEXT)"
            self.ready.set_exception(HungUpError(f"{what}: {hint}"))
        if self._open:
            self._open = False
            self._inner.connection_lost(exc)

    # --- TLS ----------------------------------------------------------------------------------------------------------

    def _shake_hands(self) -> None:
        try:
            done = self._memory.shake_hands()
        except (ssl.SSLError, ValueError) as error:
            self._flush()  # the alert that says why
            self.ready.set_exception(error)
            self._end()
            return
        self._flush()
        if done:
            self._open = True
            self._inner.connection_made(cast(asyncio.BaseTransport, self))
            self.ready.set_result(None)

    def _deliver(self) -> None:
        try:
            while self._open:
                buffer = cast(bytearray, self._inner.get_buffer(-1))
                count = cast(int, self._tls.read(len(buffer), buffer))
                if not count:
                    self._end()
                    return
                self._inner.buffer_updated(count)
        except ssl.SSLWantReadError:
            self._flush()  # TLS answers some messages by itself
        except ssl.SSLZeroReturnError:
            self._end()
        except ssl.SSLError as error:
            self._break(error)

    def _end(self) -> None:
        """Close once what was written has left."""
        self._transport.close()

    def _break(self, error: ssl.SSLError) -> None:
        """TLS has failed after the handshake. In TLS 1.3 a server refuses the client's certificate only then."""
        was_open, self._open = self._open, False
        self._transport.abort()
        if was_open:
            self._inner.connection_lost(explained(error, self._host))

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._transport.write(self._outgoing.read())


def explained(error: Exception, host: str, certificate: bytes | None = None) -> KafkaError:
    """The meaning of a failure of TLS, and the setting to look at."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return SslAuthenticationError(_not_believed(error, host, certificate))
    reason = str(getattr(error, "reason", None) or error)
    if reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"):
        hint = "security_protocol may have to be PLAINTEXT or SASL_PLAINTEXT"
        return SslAuthenticationError(f"the broker's answer is not TLS: {hint}")
    if "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
        hint = "ssl_certfile and ssl_keyfile say what the client shows"
        return SslAuthenticationError(f"the broker wants another certificate of the client ({reason}): {hint}")
    if "PROTOCOL" in reason or "HANDSHAKE_FAILURE" in reason or "CIPHER" in reason:
        hint = "this client takes TLS 1.2 and 1.3, and the ciphers in ssl_ciphers"
        return SslAuthenticationError(f"client and broker have no TLS version or cipher in common ({reason}): {hint}")
    return SslAuthenticationError(f"TLS failed: {reason}")


def _not_believed(error: ssl.SSLCertVerificationError, host: str, certificate: bytes | None) -> str:
    code = error.verify_code
    names, begins, ends = _described(certificate)
    if code in (_OTHER_NAME, _OTHER_ADDRESS):
        whom = f"for {', '.join(names)}" if names else "for other names"
        hint = "connect by a name that it is for; ssl_check_hostname=False leaves names unchecked"
        return f"the broker's certificate is {whom}, not for {host}: {hint}"
    if code == _EXPIRED:
        return f"the broker's certificate has expired{f' on {ends:%Y-%m-%d %H:%M} UTC' if ends else ''}"
    if code == _NOT_YET_VALID:
        return (
            f"the broker's certificate is not valid yet{f', but from {begins:%Y-%m-%d %H:%M} UTC on' if begins else ''}"
        )
    return (
        f"the broker's certificate is not believed ({error.verify_message}): does ssl_cafile have the right authority?"
    )


def needs_certificate(error: Exception) -> bool:
    """True if the error's text has something to say of the server's certificate."""
    codes = (_NOT_YET_VALID, _EXPIRED, _OTHER_NAME, _OTHER_ADDRESS)
    return isinstance(error, ssl.SSLCertVerificationError) and error.verify_code in codes


def _described(certificate: bytes | None) -> tuple[list[str], datetime | None, datetime | None]:
    """The names that a certificate is for, and its first and last moment; nothing without the package cryptography."""
    if certificate is None:
        return [], None, None
    try:
        from cryptography import x509
    except ImportError:
        return [], None, None
    try:
        read = x509.load_der_x509_certificate(certificate)
        begins, ends = read.not_valid_before_utc, read.not_valid_after_utc
        found = read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return [], begins, ends
    except ValueError:
        return [], None, None
    addresses = [str(each) for each in found.get_values_for_type(x509.IPAddress)]
    return [*found.get_values_for_type(x509.DNSName), *addresses], begins, ends
