"""Authentication, authorization and TLS.

    authentication  a server's side of SASL; the mechanisms: `scram`, `plain`, `oauth` with its keys (`jwks`)
    authorizer      Kafka's StandardAuthorizer over ACLs (`acl`)
    principals      the principal of a client, from the subject of its certificate
    tls             TLS contexts; `tls_memory` is TLS without a socket, `certificates` reads PEM
    authority       the authorities of a cluster, whose keys are derived from its secret

All are rules without a clock, sockets or files on disk.
"""
