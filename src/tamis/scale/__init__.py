"""Work spread over threads, processes or a cluster, always collected in the order it was given."""
