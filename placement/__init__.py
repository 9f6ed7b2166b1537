"""Where things live: group -> partition -> broker -> Ray node."""
