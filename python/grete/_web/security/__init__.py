"""Logins, requests that are refused, and parts of records that are hidden."""
