"""Which selections to trust: what stays selected when the rows change."""
