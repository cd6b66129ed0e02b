"""The handler's own work without Kafka: decode, compute, encode. Prints user and system seconds."""

from __future__ import annotations

import os
import sys

import msgspec

from benchmarks.pipeline.records import Order, invoice, order_values


def main() -> None:
    count = int(sys.argv[1])
    decode, encode = msgspec.json.Decoder(Order).decode, msgspec.json.Encoder().encode
    values, _ = order_values(0, count)
    before = os.times()
    for value in values:
        encode(invoice(decode(value)))
    after = os.times()
    print(after.user - before.user, after.system - before.system)


if __name__ == "__main__":
    main()
