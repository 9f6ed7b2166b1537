// One consumer of kafkajs: joins a group, reads a topic from its beginning, commits, and leaves.
// Prints one line of JSON: how many records came, and whatever was logged as an error or crashed the consumer.
const { Kafka, logLevel } = require("kafkajs");

const [servers, group, topic, expected] = process.argv.slice(2);
const troubles = [];
const records = [];

const kafka = new Kafka({
  clientId: "cold-group",
  brokers: servers.split(","),
  logLevel: logLevel.ERROR,
  logCreator: () => ({ log }) => troubles.push(`${log.message}: ${log.error || ""}`),
});
const consumer = kafka.consumer({ groupId: group });
consumer.on(consumer.events.CRASH, ({ payload }) => troubles.push(`crash: ${payload.error}`));

const all = new Promise((resolve) => {
  consumer.on(consumer.events.CRASH, resolve);
  consumer.on(consumer.events.COMMIT_OFFSETS, () => records.length >= Number(expected) && resolve());
});

async function main() {
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ partition, message }) => {
      records.push(message.offset);
      await consumer.commitOffsets([{ topic, partition, offset: String(Number(message.offset) + 1) }]);
    },
  });
  await all;
  await consumer.disconnect();
  console.log(JSON.stringify({ records: records.length, troubles }));
}

main().catch((error) => {
  console.log(JSON.stringify({ records: records.length, troubles: [...troubles, String(error)] }));
  process.exit(1);
});
