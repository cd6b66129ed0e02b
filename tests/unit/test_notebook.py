"""HTML of Apps and messages in notebooks."""

from __future__ import annotations

from collections.abc import Sequence

import grete
from grete.broker import Broker


def read(values: Sequence[tuple[bytes | None, bytes | None]]) -> grete.Messages:
    """Messages of a real fetch."""
    with Broker(topics={"orders": 1}) as broker:
        settings = {"bootstrap.servers": broker.bootstrap_servers}
        with grete.client.Producer(settings) as producer:
            producer.produce_many("orders", values, partition=0).wait(30)
        with grete.client.Consumer(settings) as consumer:
            consumer.assign([("orders", 0, 0)])
            return consumer.poll(30.0)


def test_a_few_messages_are_all_shown_and_escaped() -> None:
    values = [(b"<b>", b"<script>alert(1)</script>"), (None, b"\xff\x00"), (b"k", "gr\u00fc\u00dfe\u202e".encode())]
    html = read(values)._repr_html_()
    assert "orders[0]: 3 messages, offsets 0 to 2, high watermark 3" in html
    assert "<script>" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "<td>None</td>" in html
    assert "gr\u00fc\u00dfe" in html
    assert "\u202e" not in html, "text that would be shown in another order"


def test_many_messages_are_cut_in_the_middle() -> None:
    values = [(None, b"%d" % number) for number in range(100)]
    html = read(values)._repr_html_()
    assert html.count("<tr>") == 1 + 5 + 1 + 5
    assert "<td>99</td>" in html
    assert "<td>50</td>" not in html


def test_a_long_value_is_cut() -> None:
    euro = "\u20ac"
    html = read([(None, euro.encode() * 1000)])._repr_html_()
    assert f"{euro * 120}... (3,000 bytes)" in html
    assert len(html) < 1000


def test_a_timestamp_beyond_the_calendar_is_a_number() -> None:
    """Microseconds that a producer took for milliseconds."""
    with Broker() as broker:
        settings = {"bootstrap.servers": broker.bootstrap_servers}
        with grete.client.Admin(settings) as admin:
            admin.create_topic("orders", partitions=1, config={"message.timestamp.after.max.ms": str(2**63 - 1)})
        with grete.client.Producer(settings) as producer:
            producer.produce_sync("orders", b"x", timestamp=1_795_000_000_000_000, timeout=30.0)
        with grete.client.Consumer(settings) as consumer:
            consumer.assign([("orders", 0, 0)])
            html = consumer.poll(30.0)._repr_html_()
    assert "<td>1,795,000,000,000,000 ms since 1970</td>" in html
    assert "orders[0]: 1 message, offsets 0 to 0" in html


def test_no_messages() -> None:
    assert grete.Messages.empty()._repr_html_() == "<p>no messages</p>"


def test_an_app_shows_its_routes_and_when_it_runs_its_lag() -> None:
    with Broker(topics={"orders": 2}) as broker:
        app = grete.App("shop<1>", kafka={"bootstrap.servers": broker.bootstrap_servers})

        @app.consumer("orders", dead_letter="orders.dlq", concurrency="key")
        def charge(message: grete.Message) -> None:
            """Handles nothing."""

        html = app._repr_html_()
        assert "shop&lt;1&gt;: does not run" in html
        assert "<td>orders</td><td>charge</td><td>shop&lt;1&gt;</td><td>key</td><td>5</td><td>orders.dlq</td>" in html
        app.start()
        try:
            assert "shop&lt;1&gt;: runs" in app._repr_html_()
        finally:
            app.stop()


def test_an_app_with_invalid_settings_is_shown() -> None:
    app = grete.App("shop", kafka={"bootstrap.servers": "localhost:1"})
    app.consumer("orders", exactly_once=True)(lambda messages: None)
    app.consumer("invoices", exactly_once=False)(lambda messages: None)
    assert "shop: does not run" in app._repr_html_()
