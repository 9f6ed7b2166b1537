package main

import (
	"context"
	"errors"
	"time"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
)

type saramaV0 struct{}

// conversation is a client's side of SCRAM, which sarama leaves to others.
type conversation struct {
	hash scram.HashGeneratorFcn
	*scram.ClientConversation
}

func (c *conversation) Begin(user, password, authorizationID string) error {
	client, err := c.hash.NewClient(user, password, authorizationID)
	if err == nil {
		c.ClientConversation = client.NewConversation()
	}
	return err
}

func (l login) sarama() (*sarama.Config, error) {
	config := sarama.NewConfig()
	encryption, err := l.tls()
	if err != nil {
		return nil, err
	}
	config.Version, config.ApiVersionsRequest = sarama.V2_8_0_0, false // of handshake v0 nobody expects the latter
	config.Net.TLS.Enable, config.Net.TLS.Config = true, encryption
	config.Metadata.Retry.Max = 1
	config.Producer.Return.Successes = true
	config.Consumer.Return.Errors = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Heartbeat.Interval = 300 * time.Millisecond
	config.Consumer.Group.Rebalance.Retry.Backoff = 200 * time.Millisecond
	if l.Mechanism != "" {
		config.Net.SASL.Enable = true
		config.Net.SASL.Version = sarama.SASLHandshakeV0
		config.Net.SASL.Mechanism = sarama.SASLMechanism(l.Mechanism)
		config.Net.SASL.User, config.Net.SASL.Password = l.User, l.Password
		config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient {
			if l.Mechanism == sarama.SASLTypeSCRAMSHA512 {
				return &conversation{hash: scram.SHA512}
			}
			return &conversation{hash: scram.SHA256}
		}
	}
	return config, nil
}

func (saramaV0) create(l login, topic string, partitions int32) error {
	config, err := l.sarama()
	if err != nil {
		return err
	}
	admin, err := sarama.NewClusterAdmin([]string{l.Servers}, config)
	if err != nil {
		return err
	}
	defer admin.Close()
	return admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1}, false)
}

func (saramaV0) produce(l login, topic string, records []record) error {
	config, err := l.sarama()
	if err != nil {
		return err
	}
	producer, err := sarama.NewSyncProducer([]string{l.Servers}, config)
	if err != nil {
		return err
	}
	defer producer.Close()
	var made []*sarama.ProducerMessage
	for _, each := range records {
		key, value := sarama.StringEncoder(each[0]), sarama.StringEncoder(each[1])
		made = append(made, &sarama.ProducerMessage{Topic: topic, Key: key, Value: value})
	}
	err = producer.SendMessages(made)
	var failed sarama.ProducerErrors
	if errors.As(err, &failed) {
		return failed[0]
	}
	return err
}

type saramaMember struct {
	progress
	topic   string
	group   sarama.ConsumerGroup
	session sarama.ConsumerGroupSession
	stop    context.CancelFunc
}

func (saramaV0) join(l login, group, topic string) (member, error) {
	config, err := l.sarama()
	if err != nil {
		return nil, err
	}
	joined, err := sarama.NewConsumerGroup([]string{l.Servers}, group, config)
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(context.Background())
	m := &saramaMember{topic: topic, group: joined, stop: stop}
	go func() {
		for err := range joined.Errors() {
			m.fail(err)
		}
	}()
	go func() {
		for running.Err() == nil {
			if err := joined.Consume(running, []string{topic}, m); err != nil {
				m.fail(err)
				return
			}
		}
	}()
	return m, nil
}

func (m *saramaMember) Setup(session sarama.ConsumerGroupSession) error {
	m.change(func() { m.session, m.owned = session, session.Claims()[m.topic] })
	return nil
}

func (m *saramaMember) Cleanup(sarama.ConsumerGroupSession) error {
	m.change(func() { m.session, m.owned = nil, nil })
	return nil
}

func (m *saramaMember) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		m.change(func() { m.seen = append(m.seen, record{string(message.Key), string(message.Value)}) })
		session.MarkMessage(message, "")
	}
	return nil
}

func (m *saramaMember) commit() error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.session == nil {
		return errors.New("no member now")
	}
	m.session.Commit()
	return nil
}

func (m *saramaMember) close() error {
	m.stop()
	return m.group.Close()
}
