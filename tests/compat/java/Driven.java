import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.Scanner;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.internals.Exit;
import org.slf4j.LoggerFactory;

/**
 * Lets a test drive Kafka's Java clients and its command line tools, all in one JVM, for each start costs seconds of CPU.
 *
 * An order is a line of JSON, and so is its answer. What tools print goes into the answer.
 */
public class Driven {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final ByteArrayOutputStream PRINTED = new ByteArrayOutputStream();
    private static final List<Member> MEMBERS = new ArrayList<>();

    public static void main(String[] ignored) throws Exception {
        LoggerFactory.getLogger(Driven.class); // it complains once that there is nowhere to log to
        PrintStream answers = System.out;
        PrintStream kept = new PrintStream(PRINTED, true, StandardCharsets.UTF_8);
        System.setOut(kept);
        System.setErr(kept);
        Scanner lines = new Scanner(System.in, StandardCharsets.UTF_8);
        while (lines.hasNextLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                carryOut(JSON.readTree(lines.nextLine()), answer);
            } catch (Throwable failure) {
                Throwable cause = failure.getCause() == null ? failure : failure.getCause();
                answer.put("error", failure + " " + cause);
            }
            answers.println(answer);
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static void carryOut(JsonNode order, ObjectNode answer) throws Exception {
        switch (order.get("do").asText()) {
            case "tool" -> tool(JSON.convertValue(order.get("words"), String[].class), answer);
            case "messages" -> Messages.writeAgain(order, answer);
            case "errors" -> Messages.errors(answer);
            case "create" -> create(order);
            case "produce" -> produce(order, answer);
            case "read" -> Reading.read(order, login(order), answer);
            case "join" -> {
                answer.put("member", MEMBERS.size());
                MEMBERS.add(new Member(login(order), order.get("group").asText(), order.get("topic").asText()));
            }
            case "look" -> MEMBERS.get(order.get("member").asInt()).look(answer);
            case "commit" -> MEMBERS.get(order.get("member").asInt()).commit();
            case "close" -> MEMBERS.get(order.get("member").asInt()).close();
            default -> throw new IllegalArgumentException(order.toString());
        }
    }

    private static Properties login(JsonNode order) {
        return JSON.convertValue(order.get("login"), Properties.class);
    }

    private static void create(JsonNode order) throws Exception {
        try (Admin admin = Admin.create(login(order))) {
            NewTopic topic = new NewTopic(order.get("topic").asText(), order.get("partitions").asInt(), (short) 1);
            admin.createTopics(List.of(topic)).all().get();
        }
    }

    /** Sends records, with a pause after each where the order has one. Answers how often it has logged in again. */
    private static void produce(JsonNode order, ObjectNode answer) throws Exception {
        List<Future<?>> sent = new ArrayList<>();
        try (var producer = new KafkaProducer<>(login(order), new StringSerializer(), new StringSerializer())) {
            for (JsonNode each : order.get("records")) {
                String topic = order.get("topic").asText();
                sent.add(producer.send(new ProducerRecord<>(topic, each.get(0).asText(), each.get(1).asText())));
                Thread.sleep(order.path("pause").asInt());
            }
            for (Future<?> each : sent) {
                each.get();
            }
            double again = 0;
            for (var metric : producer.metrics().values()) {
                if (metric.metricName().name().equals("successful-reauthentication-total")) {
                    again += (double) metric.metricValue();
                }
            }
            answer.put("again", again);
        }
    }

    /** A tool that asks for the end of the process has its thread held for good: it must not go on. */
    private static void tool(String[] words, ObjectNode answer) throws Exception {
        PRINTED.reset();
        CompletableFuture<Integer> ended = new CompletableFuture<>();
        Exit.setExitProcedure((status, message) -> {
            ended.complete(status);
            new CompletableFuture<Void>().join();
        });
        Thread thread = new Thread(() -> {
            try {
                String[] arguments = java.util.Arrays.copyOfRange(words, 1, words.length);
                Class.forName(words[0]).getMethod("main", String[].class).invoke(null, (Object) arguments);
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
        answer.put("status", ended.get());
        answer.put("text", PRINTED.toString(StandardCharsets.UTF_8));
    }
}
