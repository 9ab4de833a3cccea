"""Tollkeeper: a personal gateway for language models."""

__version__ = "0.1.0"
