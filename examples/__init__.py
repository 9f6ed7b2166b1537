"""Programs that show Coterie at work."""
