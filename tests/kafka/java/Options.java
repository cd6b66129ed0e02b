import java.util.HashMap;
import java.util.Map;
import java.util.Properties;

/** Arguments of the form name=value; those that start with "kafka." are settings of the client. */
final class Options {
    private final Map<String, String> values = new HashMap<>();
    final Properties kafka = new Properties();

    Options(String[] arguments) {
        for (String argument : arguments) {
            int at = argument.indexOf('=');
            String name = argument.substring(0, at);
            String value = argument.substring(at + 1);
            if (name.startsWith("kafka.")) {
                kafka.put(name.substring("kafka.".length()), value);
            } else {
                values.put(name, value);
            }
        }
    }

    String text(String name) {
        String value = values.get(name);
        if (value == null) {
            throw new IllegalArgumentException("missing " + name + "=");
        }
        return value;
    }

    String text(String name, String otherwise) {
        return values.getOrDefault(name, otherwise);
    }

    long number(String name, long otherwise) {
        String value = values.get(name);
        return value == null ? otherwise : Long.parseLong(value);
    }
}
