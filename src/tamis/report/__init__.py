"""What people look at: matplotlib displays, and one self-contained HTML page per path."""
