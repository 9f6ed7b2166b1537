"""Our HTTP ports, for browsers and Prometheus: limits on connections and time, and the allowed host names.

    serving     an ASGI app on a socket, in the running loop
    callers     the connections of one port: limits, and deadlines for requests and for unread answers
    hosts       the host names by which requests may address us
    proxies     the proxies that are trusted to name a client's address

The apps themselves are elsewhere (`console`, `monitor/exposition`).
"""
