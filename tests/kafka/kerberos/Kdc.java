import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import org.apache.kerby.kerberos.kerb.client.KrbClient;
import org.apache.kerby.kerberos.kerb.server.SimpleKdcServer;

/**
 * A KDC with principals in memory: java -cp ... Kdc.java REALM PORT DIRECTORY. Reads one command a line, and answers each with
 * one line, "ok" or "error ...". Ends with its standard input.
 *
 * keytab FILE PRINCIPAL: makes the principal, with a key of its own, and writes the key.
 * change PRINCIPAL: gives it a new key, so that its keytabs no longer fit.
 * delete PRINCIPAL: forgets it.
 * ticket FILE PRINCIPAL PASSWORD: makes the principal, logs it in, and writes its ticket as a ticket cache.
 */
public final class Kdc {
    public static void main(String[] arguments) throws Exception {
        SimpleKdcServer kdc = new SimpleKdcServer();
        kdc.setWorkDir(new File(arguments[2]));
        kdc.setKdcRealm(arguments[0]);
        kdc.setKdcHost("127.0.0.1");
        kdc.setKdcTcpPort(Integer.parseInt(arguments[1]));
        kdc.setAllowUdp(false);
        kdc.init();
        kdc.start();
        System.out.println("ok");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            try {
                perform(kdc, line.split(" "));
                System.out.println("ok");
            } catch (Exception error) {
                System.out.println("error " + error.toString().replace('\n', ' '));
            }
        }
        kdc.stop();
        System.exit(0);
    }

    private static void perform(SimpleKdcServer kdc, String[] words) throws Exception {
        switch (words[0]) {
            case "keytab" -> {
                kdc.createPrincipal(words[2]);
                kdc.exportPrincipal(words[2], new File(words[1]));
            }
            case "change" -> kdc.getKadmin().updateKeys(words[1]);
            case "delete" -> kdc.deletePrincipal(words[1]);
            case "ticket" -> {
                kdc.createPrincipal(words[2], words[3]);
                KrbClient client = kdc.getKrbClient();
                client.storeTicket(client.requestTgt(words[2], words[3]), new File(words[1]));
            }
            default -> throw new IllegalArgumentException("no such command: " + words[0]);
        }
    }
}
