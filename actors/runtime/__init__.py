"""What every actor process does at its start, and Ray behind one module."""
