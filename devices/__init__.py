"""Where it is computed: devices, their presence, their data and its shards."""
