"""HTTP ports of ours, for browsers and for Prometheus: how many may ask, for how long, and by which names.

    serving     an ASGI app on a socket, in the loop that runs
    callers     the connections of one port: bounds, and deadlines for requests and for unread answers
    hosts       by which names we may be called
    proxies     whose word is taken for the address of who asks

The app's answers are not this room's affair (`console`, `monitor/exposition`).
"""
