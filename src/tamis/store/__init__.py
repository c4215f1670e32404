"""What lasts: atomic writes, the crash-safe journal, the model file, and the exports."""
