"""Data in: frames of any library, and the conditions that are learned from their columns."""
