"""Changes of the metadata: appended to the log, and when they have committed, told to the brokers and noted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from actors.controller.metadata.commits import Commit
from actors.controller.metadata.events import Changes, Said
from actors.controller.metadata.log import Log
from actors.controller.sessions import Session
from actors.links.chronicle import Chronicle
from actors.links.control import CODEC, Image
from placement.records import Record


class Publisher:
    """Appends changes to the log as the controller of `epoch`, and sends `brokers`, by id, the image that follows."""

    def __init__(self, log: Log, epoch: int, brokers: Mapping[int, Session], chronicle: Chronicle) -> None:
        self._log = log
        self._epoch = epoch
        self._brokers = brokers
        self._chronicle = chronicle

    def commit(self, records: Sequence[Record], *, tell: bool = True, note: bool = True) -> Commit:
        """Decide a change. When it has committed, brokers are told, unless that comes later, and events are noted.

        Without records it is what becomes of all that was decided before. Raises OSError if the log cannot be written,
        and NotControllerError if another controller has begun.
        """
        if not records:
            return self._log.end
        changes = Changes(self._log.decided, records)
        commit = self._log.append(records, self._epoch)
        said = list(changes.said()) if note else []
        commit.then(lambda: self._committed(said, tell=tell))
        return commit

    def _committed(self, said: Sequence[Said], *, tell: bool) -> None:
        if tell:
            self.tell()
        for each in said:
            self._chronicle.note(*each)

    def tell(self) -> None:
        """Send brokers the committed image. Credentials and ACLs, which may be many, are in it only if they changed."""
        metadata = self._log.committed
        images: dict[tuple[bool, int], bytes] = {}
        for session in self._brokers.values():
            if not session.welcomed:
                continue
            known, version = session.security_version == metadata.security_version, session.protocol.version
            if (known, version) not in images:
                image = Image(metadata.without_security() if known else metadata)
                images[known, version] = CODEC.encode(image, version)
            session.protocol.send_encoded(images[known, version])
            session.security_version = metadata.security_version
