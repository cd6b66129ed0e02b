"""The migration guides: their programs do the same on one broker, and the guides show these programs."""
