"""Subscribed to an empty topic, nothing to do: what does a client cost that waits?"""
