"""The administrative client: topics, settings, groups, replicas."""
