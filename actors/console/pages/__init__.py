"""The pages: a module for each. It asks the visitor's Source for views, and makes regions from them."""
