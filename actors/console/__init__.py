"""The console: a cluster in the browser. A Starlette app over a `Source` of views, with pages made on the server.

    beside      the console that a Monitor serves, as the settings say
    server      serves an app in the process's own event loop
    app         the routes, and what is answered to whom
    guard       which requests are let in at all: host, origin, and the headers of answers
    live        what changes on a page, as server-sent events
    sessions    logins and tokens, in memory
    entrance    who may come in, and what he is then given: a Visitor
    rights      a Source that shows what a user may list
    desk        what a visitor does at the brokers: records and resets
    brokers     a desk at real brokers, as the user
    kafka       a Source over an Admin, for any Kafka
    source      the Source itself, and one that many share
    statics     our files, as they are sent
    pages/      a module for each page: views in, HTML out
    html        elements, in which every text is escaped
    figures     numbers, sizes and times as people read them
    static/     the style, the scripts, uPlot and a typeface, each with its licence

A page is made of regions. The stream of a page makes it again with each look, and sends the regions that differ, so
that a page is drawn in one place, and works without scripts.
"""
