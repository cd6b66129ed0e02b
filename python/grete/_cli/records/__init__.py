"""Commands that read and write records: `grete consume`, `grete produce`."""
