"""Grete beside what a user would pick instead, on the same broker and topics, in the same run."""
