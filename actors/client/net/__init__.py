"""Connections to brokers, the metadata of the cluster, and requests to partition leaders."""
