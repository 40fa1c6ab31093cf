"""Passes over traced graphs, which replace their nodes."""
