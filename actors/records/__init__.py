"""Kafka's record batch: what it is, and how much of one may be believed.

A batch (KIP-98) is a header of 61 bytes and a payload: its records, one after the other, compressed as one block. A CRC
says that the bytes arrived as they were sent. It says nothing of what they mean: a header may count records that are
not there, name a codec that was not used, give any time as the largest, or stand before five kilobytes that decompress
to gigabytes. So the leader of a partition believes none of it:

    batch         the header, whole batches in a buffer, stamping
    bounds        how much a batch may hold, known before any work is done
    compression   codecs: bounded, and whether a payload is one frame, as all clients can read it
    rows          the fields of the records of a payload, one record after the other
    columns       the same of all records at once, by array arithmetic, which is faster for many
    runs          whether records that look alike are what they must be, in the fastest way
    scan          the one of rows and columns that is faster for so many records
    summary       what a leader has to know of records
    checks        what the records of a produced batch must be, and what their largest timestamp is
    searching     a record by its time
    reading       stored batches to records, for whoever wants them one by one
    building      records to batches
    encoding      the same record by record, of all that a program may give
    growing       a batch that grows record by record, as a producer's does
    sealing       columns of records to batches, by array arithmetic
    glances       what can be told of batches without reading their headers whole
    markers       the records of control batches

All work is bounded by sizes and counts that stand in the header, in the settings of the topic, or in `bounds`. Readers
of stored batches know one ceiling, whatever a topic's settings were when a batch was produced. Here is no I/O and no
clock, and every function may run in any thread.
"""
