"""The placement of groups on partitions, of partitions on brokers, and of brokers on Ray nodes."""
