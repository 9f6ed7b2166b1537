"""Kafka's record batch: its format, and how much of its content a broker may trust.

A batch (KIP-98) is a header of 61 bytes and a payload: its records, one after the other, compressed as one block. A CRC
proves that the bytes arrived as they were sent. It proves nothing about their content: a header may count records that
do not exist, name a codec that was not used, give any time as the largest, or precede five kilobytes that decompress to
gigabytes. So the leader of a partition trusts none of it:

    batch         the header, whole batches in a buffer, stamping
    bounds        how much a batch may hold, known before any work is done
    compression   codecs: bounded, and whether a payload is one frame, as all clients can read it
    rows          the fields of the records of a payload, one record after the other
    columns       the same fields of all records at once, by array arithmetic, which is faster for many
    runs          the fastest check of records that look alike
    scan          chooses rows or columns, whichever is faster for a number of records
    summary       the facts that a leader needs about records
    checks        the rules for the records of a produced batch, and their largest timestamp
    searching     a record by its time
    reading       stored batches to records, one by one
    building      records to batches
    encoding      the same, record by record, from any value that a program may pass
    growing       a batch that grows record by record, as a producer's does
    sealing       columns of records to batches, by array arithmetic
    glances       facts about batches that do not need the whole header
    markers       the records of control batches

All work is bounded by sizes and counts in the header, in the settings of the topic, or in `bounds`. For readers of
stored batches there is one bound, whatever a topic's settings were when a batch was produced. This package has no I/O
and no clock, and every function may run in any thread.
"""
