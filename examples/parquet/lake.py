"""Clicks of a topic as Parquet files, one for each batch: columns all the way, without a Python object for each record.

Each record is in one file, also after a crash: a partition that is taken over begins at its committed offset, and the
files from there on are removed before their records are written again.
"""

import os
from pathlib import Path

import polars

import grete

# Large batches make large files: a file has what 10 s bring, or 64 MiB.
app = grete.App("lake", max_messages=100_000, max_bytes="64MiB", max_wait="10s")

CLICK = polars.Struct({"user": polars.String, "page": polars.String, "seconds": polars.Float64})


def directory() -> Path:
    return Path(os.environ.get("LAKE", "lake"))


@app.consumer("clicks")
class Files(grete.Consumer):
    """One instance for each partition, which writes the files of that partition alone."""

    def initialize(self) -> None:
        self.folder = directory() / self.topic / f"partition={self.partition}"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.is_clean = False

    def consume(self) -> None:
        first = self.messages.first_offset
        if not self.is_clean:
            self.remove_from(first)
            self.is_clean = True
        frame = polars.DataFrame(self.messages).select(
            "offset",
            "timestamp",
            polars.col("value").cast(polars.String).str.json_decode(CLICK).struct.unnest(),
        )
        # A file appears whole or not at all. Its name is the first offset, so names sort as offsets do.
        path = self.folder / f"{first:020}.parquet"
        part = path.with_suffix(".part")
        frame.write_parquet(part, compression="zstd")
        part.replace(path)

    def remove_from(self, offset: int) -> None:
        """Removes what an earlier owner wrote and did not commit."""
        for path in self.folder.glob("*.p*"):
            if path.suffix == ".part" or int(path.stem) >= offset:
                path.unlink()


def clicks() -> polars.LazyFrame:
    """Reads all files; a query reads only the columns and files that it needs."""
    return polars.scan_parquet(directory() / "clicks" / "*" / "*.parquet", hive_partitioning=True)


if __name__ == "__main__":
    print(clicks().group_by("page").agg(polars.len(), polars.col("seconds").mean()).sort("page").collect())
