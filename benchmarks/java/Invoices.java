import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.ObjectWriter;
import java.io.IOException;

/** The computation of benchmarks.pipeline: an order in JSON becomes an invoice in JSON. */
final class Invoices {
    static final String ORDERS = "orders";
    static final String INVOICES = "invoices";

    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final ObjectReader READER = MAPPER.readerFor(Order.class);
    private static final ObjectWriter WRITER = MAPPER.writerFor(Invoice.class);

    private Invoices() {}

    /** Value of the topic "orders". */
    public record Order(String id, String customer, long amount, String currency) {}

    /** Value of the topic "invoices". */
    public record Invoice(String order, String customer, long total) {}

    static byte[] invoice(byte[] value) {
        try {
            Order order = READER.readValue(value);
            return WRITER.writeValueAsBytes(new Invoice(order.id(), order.customer(), order.amount() * 119 / 100));
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }
}
