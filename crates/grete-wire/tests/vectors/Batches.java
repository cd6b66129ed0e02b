// Writes record batches with Kafka's own classes, and the records that those classes read back:
//
//   java -cp kafka-clients-4.3.0.jar:lz4-java-1.10.2.jar:snappy-java-1.1.10.7.jar:zstd-jni-1.5.6-10.jar:slf4j-api-1.7.36.jar \
//        Batches.java OUTPUT_FOLDER
//
// One file per codec, batches-CODEC.bin: a batch with gaps between its offsets, one with log-append time, one of a
// transaction and the marker that aborts it. batches.txt: a line per record.
//
// With "-" as folder, the program reads batches from standard input like a broker, and prints their content: one line per
// batch and one per record. Run by the test `kafkas_own_classes_read_what_the_builder_writes`.

import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HexFormat;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Crc32C;

public class Batches {
    static final Header[] NONE = {};

    static byte[] text(String text) {
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }

    static MemoryRecordsBuilder builder(Compression codec, TimestampType type, long base, long append, long producer) {
        return MemoryRecords.builder(ByteBuffer.allocate(1 << 20), RecordBatch.CURRENT_MAGIC_VALUE, codec, type, base, append,
            producer, (short) (producer < 0 ? -1 : 3), producer < 0 ? -1 : 0, producer >= 0, 5);
    }

    public static void main(String[] args) throws Exception {
        if (args[0].equals("-")) {
            read(ByteBuffer.wrap(System.in.readAllBytes()));
            return;
        }
        Path folder = Path.of(args[0]);
        try (PrintStream expected = new PrintStream(Files.newOutputStream(folder.resolve("batches.txt")), false, "UTF-8")) {
            for (String codec : new String[] {"none", "gzip", "snappy", "lz4", "zstd"}) {
                ByteBuffer all = write(Compression.of(codec).build(), codec.equals("none") ? 700 : 70_000);
                Files.write(folder.resolve("batches-" + codec + ".bin"), Arrays.copyOf(all.array(), all.limit()));
                for (MutableRecordBatch batch : MemoryRecords.readableRecords(all).batches()) {
                    for (Record record : batch) {
                        if (!batch.isControlBatch()) {
                            expected.println(codec + " " + describe(record));
                        }
                    }
                }
            }
        }
    }

    static void read(ByteBuffer all) throws Exception {
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        MemoryRecords records = MemoryRecords.readableRecords(all);
        for (MutableRecordBatch batch : records.batches()) {
            batch.ensureValid();
            out.println("batch " + batch.compressionType() + " " + batch.countOrNull() + " " + batch.lastOffset() + " "
                + batch.maxTimestamp() + " " + batch.producerId() + " " + batch.producerEpoch() + " " + batch.baseSequence());
            for (Record record : batch) {
                record.ensureValid();
                out.println(describe(record));
            }
        }
        out.println(records.validBytes() + " of " + all.limit() + " bytes");
        out.flush();
    }

    static ByteBuffer write(Compression codec, int large) {
        ByteBuffer all = ByteBuffer.allocate(1 << 21);
        long now = 1_700_000_000_000L;

        MemoryRecordsBuilder builder = builder(codec, TimestampType.CREATE_TIME, 1000, -1, -1);
        for (int length : new int[] {0, 1, 4, 5, 11, 12, 13, 23, 63, 64, 200}) {
            builder.appendWithOffset(1000 + 3 * length, now + length, text("k".repeat(length)), text("v".repeat(length)), NONE);
        }
        builder.appendWithOffset(2000, now - 5, null, text("no key"), NONE);
        builder.appendWithOffset(2001, now + 100_000_000_000L, text("tombstone"), null, NONE);
        builder.appendWithOffset(2002, 0, (byte[]) null, (byte[]) null, NONE);
        builder.appendWithOffset(2003, now, text("héáders"), text("value"), new Header[] {
            new RecordHeader("a", text("1")), new RecordHeader("b", null), new RecordHeader("a", text("1")), new RecordHeader("", text(""))});
        StringBuilder lines = new StringBuilder();
        for (int i = 0; lines.length() < large; i++) {
            lines.append("line ").append(i * 7919 % 1000).append(';');
        }
        builder.appendWithOffset(2004, now, null, text(lines.toString()), NONE);
        all.put(builder.build().buffer());

        builder = builder(codec, TimestampType.LOG_APPEND_TIME, 3000, now + 12345, -1);
        for (int i = 0; i < 70; i++) {
            builder.append(now + i, null, text("t" + i));
        }
        all.put(builder.build().buffer());

        builder = builder(codec, TimestampType.CREATE_TIME, 4000, -1, 77);
        builder.append(now, text("aborted"), text("4000"));
        all.put(builder.build().buffer());
        all.put(MemoryRecords.withEndTransactionMarker(4001, now, 5, 77, (short) 3,
            new EndTransactionMarker(ControlRecordType.ABORT, 0)).buffer());
        all.flip();
        return all;
    }

    static String describe(Record record) {
        StringBuilder line = new StringBuilder();
        line.append(record.offset()).append(' ').append(record.timestamp());
        line.append(' ').append(describe(record.key())).append(' ').append(describe(record.value()));
        for (Header header : record.headers()) {
            byte[] value = header.value();
            line.append(' ').append(describe(ByteBuffer.wrap(text(header.key()))));
            line.append('=').append(describe(value == null ? null : ByteBuffer.wrap(value)));
        }
        return line.toString();
    }

    // Hex; for long values, length and CRC-32C.
    static String describe(ByteBuffer field) {
        if (field == null) {
            return "null";
        }
        byte[] bytes = new byte[field.remaining()];
        field.duplicate().get(bytes);
        if (bytes.length > 32) {
            return bytes.length + ":" + Long.toHexString(Crc32C.compute(bytes, 0, bytes.length));
        }
        return "x" + HexFormat.of().formatHex(bytes);
    }
}
