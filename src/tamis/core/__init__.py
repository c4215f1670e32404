"""What every method shares: loss, design, structure, certificate, path, and the driver that follows it."""
