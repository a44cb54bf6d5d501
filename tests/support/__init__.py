"""What several tests share: logs, nights, files, clients."""
