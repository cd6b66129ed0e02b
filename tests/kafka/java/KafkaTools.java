import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command line tools one after the other, because a JVM for each would take most of a test's time. A line
 * of standard input is one run: class, standard input and arguments, each in Base64, separated by spaces. The answer is
 * a line: exit status, then standard output and standard error in Base64.
 */
public final class KafkaTools {
    private KafkaTools() {}

    private static final class Exited extends Error {
        private static final long serialVersionUID = 1;

        Exited() {
            super("exited", null, false, false);
        }
    }

    /** The status with which the tool exits; null: it has not. Its own code may catch what the exit throws. */
    private static Integer exited;

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        Exit.setExitProcedure((status, message) -> exit(status, message));
        Exit.setHaltProcedure((status, message) -> exit(status, message));
        // The hooks of the tools would only run at the end of this process.
        Exit.setShutdownHookAdder((name, runnable) -> {});
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] fields = Arrays.stream(line.split(" ")).map(KafkaTools::decoded).toArray(String[]::new);
            ByteArrayOutputStream output = new ByteArrayOutputStream();
            ByteArrayOutputStream errors = new ByteArrayOutputStream();
            System.setIn(new ByteArrayInputStream(fields[1].getBytes(StandardCharsets.UTF_8)));
            System.setOut(new PrintStream(output, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(errors, true, StandardCharsets.UTF_8));
            int status = run(fields[0], Arrays.copyOfRange(fields, 2, fields.length));
            answers.println(status + " " + encoded(output) + " " + encoded(errors));
            answers.flush();
        }
    }

    private static void exit(int status, String message) {
        if (message != null) {
            System.err.println(message);
        }
        if (exited == null) {
            exited = status;
        }
        throw new Exited();
    }

    private static int run(String name, String[] arguments) throws Exception {
        exited = null;
        try {
            Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) arguments);
            return exited == null ? 0 : exited;
        } catch (InvocationTargetException failure) {
            if (exited != null) {
                return exited;
            }
            failure.getCause().printStackTrace();
            return 1;
        }
    }

    /** A field is never empty: it begins with a dash. */
    private static String decoded(String field) {
        return new String(Base64.getDecoder().decode(field.substring(1)), StandardCharsets.UTF_8);
    }

    private static String encoded(ByteArrayOutputStream bytes) {
        return "-" + Base64.getEncoder().encodeToString(bytes.toByteArray());
    }
}
