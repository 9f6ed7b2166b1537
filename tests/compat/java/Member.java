import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** A member of a group that polls in a thread of its own. A topic may be a pattern: ^ for the client, ~ for the broker. */
class Member {
    private final KafkaConsumer<String, String> consumer;
    private final ConcurrentLinkedQueue<CompletableFuture<Void>> commits = new ConcurrentLinkedQueue<>();
    private final List<ConsumerRecord<String, String>> seen = new ArrayList<>();
    private final Thread thread = new Thread(this::run);
    private List<Integer> owned = List.of();
    private RuntimeException failure;
    private volatile boolean stopped;

    Member(Properties login, String group, String topic) {
        Properties settings = new Properties();
        settings.putAll(login);
        settings.put("group.id", group);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        if (!"consumer".equals(login.get("group.protocol"))) {
            settings.put("heartbeat.interval.ms", "300");
            settings.put("session.timeout.ms", "10000");
        }
        consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        if (topic.startsWith("^")) {
            consumer.subscribe(Pattern.compile(topic));
        } else if (topic.startsWith("~")) {
            consumer.subscribe(new SubscriptionPattern(topic.substring(1)));
        } else {
            consumer.subscribe(List.of(topic));
        }
        thread.setDaemon(true);
        thread.start();
    }

    private void run() {
        try (consumer) {
            while (!stopped) {
                turn();
            }
        } catch (RuntimeException thrown) {
            synchronized (this) {
                failure = thrown;
            }
        }
    }

    private void turn() {
        var records = consumer.poll(Duration.ofMillis(100));
        synchronized (this) {
            records.forEach(seen::add);
            owned = consumer.assignment().stream().map(TopicPartition::partition).toList();
        }
        for (CompletableFuture<Void> done; (done = commits.poll()) != null; done.complete(null)) {
            consumer.commitSync();
        }
    }

    synchronized void look(ObjectNode answer) {
        if (failure != null) {
            throw failure;
        }
        var numbers = answer.putArray("owned");
        owned.forEach(numbers::add);
        var records = answer.putArray("seen");
        seen.forEach(each -> records.addArray().add(each.key()).add(each.value()));
    }

    void commit() {
        CompletableFuture<Void> done = new CompletableFuture<>();
        commits.add(done);
        done.orTimeout(60, java.util.concurrent.TimeUnit.SECONDS).join();
    }

    void close() throws InterruptedException {
        stopped = true;
        thread.join();
    }
}
