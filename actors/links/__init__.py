"""Our own protocols: broker and shard (`relay`), controller and broker (`control`), leader and follower."""
