"""Experiments on real networks, one room each, found by discovery."""
