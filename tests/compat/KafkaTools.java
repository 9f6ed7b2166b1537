import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Scanner;
import java.util.concurrent.CompletableFuture;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command line tools one after another in one JVM, for each start of one costs seconds of CPU.
 *
 * A line of the input is a tool's class and its arguments, parted by tabs. A line after its output says how it ended.
 */
public class KafkaTools {
    public static void main(String[] ignored) throws Exception {
        System.setErr(System.out);
        Scanner lines = new Scanner(System.in, StandardCharsets.UTF_8);
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().split("\t");
            int status = run(words[0], Arrays.copyOfRange(words, 1, words.length));
            System.out.println("--- ended with " + status);
            System.out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    /** A tool that asks for the end of the process has its thread held for good: it must not go on. */
    private static int run(String tool, String[] arguments) throws Exception {
        CompletableFuture<Integer> ended = new CompletableFuture<>();
        Exit.setExitProcedure((status, message) -> {
            ended.complete(status);
            new CompletableFuture<Void>().join();
        });
        Thread thread = new Thread(() -> {
            try {
                Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
                ended.complete(0);
            } catch (InvocationTargetException thrown) {
                thrown.getCause().printStackTrace();
                ended.complete(-1);
            } catch (ReflectiveOperationException missing) {
                missing.printStackTrace();
                ended.complete(-1);
            }
        });
        thread.setDaemon(true);
        thread.start();
        return ended.get();
    }
}
