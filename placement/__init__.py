"""The placement of a group on a partition, a partition on brokers, a broker on a Ray node."""
