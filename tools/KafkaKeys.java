// Prints Apache Kafka's keys as JSON, one a line: what actors/settings/kafka_keys.json holds. Run with Kafka's jars:
//   java -cp 'LIBS/*' tools/KafkaKeys.java > actors/settings/kafka_keys.json
// Names, types, defaults, ranges, what can change at run time, and the broker's keys that a topic's or a group's key
// falls back to; no documentation.

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Function;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.ConfigSynonym;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.QuotaConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;
import org.apache.kafka.storage.internals.log.LogConfig;

public class KafkaKeys {
    private static final Pattern RANGE = Pattern.compile("\\[(-?[\\d.]+?),\\.\\.\\.(?:,(-?[\\d.]+))?\\](?: or (-?\\d+))?");
    private static final Function<String, List<String>> NOWHERE = key -> List.of();
    private static final Pattern CHOICES = Pattern.compile("(\\(case insensitive\\) )?\\[(\\w+(?:, \\w+)*)\\]");

    public static void main(String[] arguments) {
        Set<String> dynamic = DynamicBrokerConfig.ALL_DYNAMIC_CONFIGS;
        ConfigDef broker = kafka.server.KafkaConfig.configDef();
        List<String> sections = new ArrayList<>();
        List<String> rows = rows(broker, dynamic, false, NOWHERE);
        ConfigDef rates = QuotaConfig.brokerQuotaConfigs();  // known, but no part of what a broker starts with
        rows.addAll(rows(rates, rates.names(), true, NOWHERE));
        sections.add(section("broker", rows.stream().sorted().toList()));
        sections.add(section("topic", rows(LogConfig.configDefCopy(), Set.of(), false, KafkaKeys::ofTopic)));
        sections.add(section("group", rows(GroupConfig.CONFIG_DEF, Set.of(), false, KafkaKeys::ofGroup)));
        sections.add(section("client_metrics", rows(ClientMetricsConfigs.configDef(), Set.of(), false, NOWHERE)));
        System.out.println("{\n" + String.join(",\n", sections) + "\n}");
    }

    private static String section(String name, List<String> rows) {
        return "\"" + name + "\": {\n" + String.join(",\n", rows) + "\n}";
    }

    private static List<String> ofTopic(String key) {
        List<ConfigSynonym> found = ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.getOrDefault(key, List.of());
        return found.stream().map(ConfigSynonym::name).toList();
    }

    private static List<String> ofGroup(String key) {
        return GroupConfig.brokerSynonym(key).stream().toList();
    }

    private static List<String> rows(
        ConfigDef keys, Set<String> dynamic, boolean internal, Function<String, List<String>> inherits
    ) {
        List<String> rows = new ArrayList<>();
        for (ConfigDef.ConfigKey key : new TreeMap<>(keys.configKeys()).values()) {
            List<String> fields = new ArrayList<>();
            fields.add("\"type\": " + quoted(key.type.name()));
            if (key.hasDefault() && key.defaultValue != null) fields.add("\"default\": " + quoted(text(key)));
            addRange(fields, key.validator == null ? "" : key.validator.toString());
            if (dynamic.contains(key.name)) fields.add("\"dynamic\": true");
            if (internal || key.internalConfig) fields.add("\"internal\": true");
            List<String> names = inherits.apply(key.name);
            if (!names.isEmpty()) fields.add("\"inherits\": " + list(names));
            rows.add(quoted(key.name) + ": {" + String.join(", ", fields) + "}");
        }
        return rows;
    }

    private static String text(ConfigDef.ConfigKey key) {
        if (key.defaultValue instanceof Collection<?> items)
            return items.stream().map(Object::toString).collect(Collectors.joining(","));
        return key.defaultValue instanceof String string ? string : ConfigDef.convertToString(key.defaultValue, key.type);
    }

    private static void addRange(List<String> fields, String validator) {
        Matcher range = RANGE.matcher(validator);
        Matcher choices = CHOICES.matcher(validator);
        if (range.matches()) {
            fields.add("\"low\": " + (range.group(3) == null ? range.group(1) : range.group(3)));
            if (range.group(2) != null) fields.add("\"high\": " + range.group(2));
        } else if (choices.matches() && choices.group(1) == null) {
            fields.add("\"choices\": " + list(List.of(choices.group(2).split(", "))));
        }
    }

    private static String list(List<String> items) {
        return items.stream().map(KafkaKeys::quoted).collect(Collectors.joining(", ", "[", "]"));
    }

    private static String quoted(String text) {
        return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
    }
}
