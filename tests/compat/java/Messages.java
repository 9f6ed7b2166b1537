import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.MessageUtil;

/** Kafka's own classes of its messages: what they make of bytes, and which errors there are. */
class Messages {
    /** The name and code of each error. */
    static void errors(ObjectNode answer) {
        for (Errors error : Errors.values()) {
            answer.put(error.name(), error.code());
        }
    }

    /** Reads each message, and writes what was read. All bytes must be read. */
    static void writeAgain(JsonNode order, ObjectNode answer) {
        ArrayNode written = answer.putArray("written");
        for (JsonNode each : order.get("messages")) {
            ApiMessageType type = ApiMessageType.fromApiKey((short) each.get("api_key").asInt());
            ApiMessage message = each.get("request").asBoolean() ? type.newRequest() : type.newResponse();
            short version = (short) each.get("version").asInt();
            ByteBuffer bytes = ByteBuffer.wrap(HexFormat.of().parseHex(each.get("bytes").asText()));
            message.read(new ByteBufferAccessor(bytes), version);
            if (bytes.hasRemaining()) {
                throw new IllegalArgumentException(bytes.remaining() + " bytes too many: " + message);
            }
            ByteBuffer again = MessageUtil.toByteBufferAccessor(message, version).buffer();
            byte[] content = new byte[again.remaining()];
            again.get(content);
            written.add(HexFormat.of().formatHex(content));
        }
    }
}
