"""Check of the site in a browser: accessibility, width, foreign requests, search."""
