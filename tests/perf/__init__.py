"""Measures the client against a server that knows the truth. Never a test."""
