"""Clients in event loops: deliveries and polls that are awaited."""
