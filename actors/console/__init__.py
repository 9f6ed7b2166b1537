"""The console: a cluster in the browser. A Starlette app over a `Source` of views, with pages made on the server.

    beside      the console that a Monitor serves, by the settings
    server      serves an app in the process's own event loop
    app         the routes and their answers
    guard       which requests are let in at all: host, origin, and the headers of answers
    live        the changes of a page, as server-sent events
    sessions    logins and tokens, in memory
    entrance    logins; a visitor who may enter gets a Visitor
    tries       failed logins, and how long the next one has to wait
    rights      a Source that shows what a user may list
    desk        a visitor's work at the brokers: reading records, resetting offsets
    brokers     a desk at real brokers, as the user
    kafka       a Source over an Admin, for any Kafka
    source      the Source interface, and one that many visitors share
    statics     our static files
    pages/      a module for each page: views in, HTML out
    html        elements, in which every text is escaped
    figures     numbers, sizes and times as people read them
    axis        the time axis that the curves of a page share
    static/     the style, the scripts, uPlot and a typeface, each with its licence

A page is made of regions. The event stream of a page renders it again after each change of the views, and sends the
regions that differ. So a page is rendered in one place, and works without scripts.
"""
