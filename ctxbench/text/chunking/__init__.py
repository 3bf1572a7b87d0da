"""Rules by which texts are split into chunks, the same for requests and for items."""
