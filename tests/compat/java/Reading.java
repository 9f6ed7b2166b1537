import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Reads all records of the first partitions of topics, up to the last offset of each. */
class Reading {
    private static final long MOST_MS = 60_000;

    static void read(JsonNode order, Properties settings, ObjectNode answer) {
        Map<TopicPartition, Long> left = new HashMap<>();
        Map<String, ArrayNode> records = new HashMap<>();
        order.get("topics").properties().forEach(topic -> {
            left.put(new TopicPartition(topic.getKey(), 0), topic.getValue().asLong());
            records.put(topic.getKey(), answer.withObject("/topics").putArray(topic.getKey()));
        });
        long deadline = System.currentTimeMillis() + MOST_MS;
        var bytes = new ByteArrayDeserializer();
        try (var consumer = new KafkaConsumer<>(settings, bytes, bytes)) {
            List<TopicPartition> all = new ArrayList<>(left.keySet());
            consumer.assign(all);
            consumer.seekToBeginning(all);
            while (!left.isEmpty()) {
                if (System.currentTimeMillis() > deadline) {
                    throw new IllegalStateException("not read to their ends: " + left + consumer.assignment());
                }
                for (ConsumerRecord<byte[], byte[]> each : consumer.poll(Duration.ofMillis(200))) {
                    write(each, records.get(each.topic()).addArray());
                }
                left.entrySet().removeIf(end -> consumer.position(end.getKey()) >= end.getValue());
            }
        }
    }

    private static void write(ConsumerRecord<byte[], byte[]> record, ArrayNode row) {
        row.add(record.offset()).add(record.timestamp()).add(hex(record.key())).add(hex(record.value()));
        ArrayNode headers = row.addArray();
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(hex(header.value()));
        }
    }

    private static String hex(byte[] bytes) {
        return bytes == null ? null : HexFormat.of().formatHex(bytes);
    }
}
