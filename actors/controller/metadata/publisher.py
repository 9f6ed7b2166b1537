"""Changes of the metadata: appended to the log, and when they have committed, told to the brokers and noted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from actors.controller.faults import Faults, logged
from actors.controller.metadata.commits import Commit
from actors.controller.metadata.events import Changes, Said
from actors.controller.metadata.log import Log
from actors.controller.sessions import Session
from actors.links.chronicle import Chronicle
from actors.links.control import CODEC, Image
from placement.metadata import ClusterMetadata
from placement.records import Record


class Publisher:
    """Appends changes to the log as the controller of `epoch`, and sends `brokers`, by id, the image that follows.

    `faults` hears of a bug in what comes after an append: the change is made, and is not taken for one that failed.
    """

    def __init__(
        self, log: Log, epoch: int, brokers: Mapping[int, Session], chronicle: Chronicle, faults: Faults = logged
    ) -> None:
        self._log = log
        self._epoch = epoch
        self._brokers = brokers
        self._chronicle = chronicle
        self._faults = faults

    @property
    def decided(self) -> ClusterMetadata:
        """The metadata with all that was decided, whether it has committed or not."""
        return self._log.decided

    def commit(self, records: Sequence[Record], *, tell: bool = True, note: bool = True) -> Commit:
        """Decide a change. When it has committed, brokers are told, unless that comes later, and events are noted.

        Without records it is what becomes of all that was decided before. Raises OSError if the log cannot be written,
        and NotControllerError if another controller has begun; whatever it raises, nothing was decided.
        """
        if not records:
            return self._log.end
        changes = Changes(self._log.decided, records)
        commit = self._log.append(records, self._epoch)
        if tell:
            commit.then(self.tell)
        if note:
            self._guarded("a change has no events", lambda: self._note_later(commit, changes))
        return commit

    def _note_later(self, commit: Commit, changes: Changes) -> None:
        said = list(changes.said())
        commit.then(lambda: self._guarded("a change has no events", lambda: self._note(said)))

    def _note(self, said: Sequence[Said]) -> None:
        for each in said:
            self._chronicle.note(*each)

    def _guarded(self, what: str, do: Callable[[], None]) -> None:
        try:
            do()
        except Exception as error:  # whatever a bug raises: the change is made
            self._faults(what, error)

    def tell(self) -> None:
        """Send brokers the committed image. Credentials and ACLs, which may be many, are in it only if they changed."""
        metadata = self._log.committed
        images: dict[tuple[bool, int], bytes] = {}
        for broker_id, session in self._brokers.items():
            if session.welcomed:
                what = f"broker {broker_id} may not be told of a change"
                self._guarded(what, partial(_send, metadata, session, images))


def _send(metadata: ClusterMetadata, session: Session, images: dict[tuple[bool, int], bytes]) -> None:
    """Send an image to a broker. `images` are those that were encoded for others."""
    known, version = session.security_version == metadata.security_version, session.protocol.version
    if (known, version) not in images:
        image = Image(metadata.without_security() if known else metadata)
        images[known, version] = CODEC.encode(image, version)
    session.protocol.send_encoded(images[known, version])
    session.security_version = metadata.security_version
