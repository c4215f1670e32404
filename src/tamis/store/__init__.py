"""What leaves memory: atomic writes, the crash-safe journal, the `.tamis` model file, and the exports."""
