package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const patience = 60 * time.Second

type franz struct{}

// membership says by which protocol, and as which instance, somebody is a member. With the consumer protocol, sessions
// and heartbeats are the broker's.
func (l login) membership() []kgo.Opt {
	options := []kgo.Opt{kgo.HeartbeatInterval(300 * time.Millisecond), kgo.SessionTimeout(10 * time.Second)}
	if l.Protocol == "consumer" {
		options = []kgo.Opt{kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer())}
	}
	if l.Instance != "" {
		options = append(options, kgo.InstanceID(l.Instance))
	}
	return options
}

func (l login) franz(more ...kgo.Opt) (*kgo.Client, error) {
	options := append(more, kgo.SeedBrokers(strings.Split(l.Servers, ",")...), kgo.RecordRetries(3))
	if l.CAFile != "" {
		config, err := l.tls()
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	mechanisms := map[string]sasl.Mechanism{
		"PLAIN":         plain.Auth{User: l.User, Pass: l.Password}.AsMechanism(),
		"SCRAM-SHA-256": scram.Auth{User: l.User, Pass: l.Password}.AsSha256Mechanism(),
		"SCRAM-SHA-512": scram.Auth{User: l.User, Pass: l.Password}.AsSha512Mechanism(),
	}
	if mechanism, ok := mechanisms[l.Mechanism]; ok {
		options = append(options, kgo.SASL(mechanism))
	}
	return kgo.NewClient(options...)
}

func (franz) create(l login, topic string, partitions int32) error {
	client, err := l.franz()
	if err != nil {
		return err
	}
	defer client.Close()
	wanted := kmsg.NewCreateTopicsRequestTopic()
	wanted.Topic, wanted.NumPartitions, wanted.ReplicationFactor = topic, partitions, 1
	request := kmsg.NewPtrCreateTopicsRequest()
	request.Topics = append(request.Topics, wanted)
	made, err := request.RequestWith(context.Background(), client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(made.Topics[0].ErrorCode)
}

func (franz) produce(l login, topic string, records []record) error {
	client, err := l.franz(kgo.DefaultProduceTopic(topic))
	if err != nil {
		return err
	}
	defer client.Close()
	context, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := client.Ping(context); err != nil {
		return err // of a wrong password the producer itself would try again and again
	}
	var made []*kgo.Record
	for _, each := range records {
		made = append(made, &kgo.Record{Key: []byte(each[0]), Value: []byte(each[1])})
	}
	return client.ProduceSync(context, made...).FirstErr()
}

type franzMember struct {
	progress
	login  login
	group  string
	client *kgo.Client
}

func (franz) join(l login, group, topic string) (member, error) {
	m := &franzMember{login: l, group: group}
	var err error
	gone := func(_ context.Context, _ *kgo.Client, gone map[string][]int32) {
		m.change(func() {
			m.owned = slices.DeleteFunc(m.owned, func(n int32) bool { return slices.Contains(gone[topic], n) })
		})
	}
	m.client, err = l.franz(append(
		l.membership(),
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, more map[string][]int32) {
			m.change(func() { m.owned = append(m.owned, more[topic]...) })
		}),
		kgo.OnPartitionsRevoked(gone), kgo.OnPartitionsLost(gone),
	)...)
	if err != nil {
		return nil, err
	}
	go m.poll()
	return m, nil
}

func (m *franzMember) poll() {
	for {
		fetches := m.client.PollFetches(context.Background())
		if fetches.IsClientClosed() {
			return
		}
		fetches.EachError(func(topic string, partition int32, err error) {
			m.fail(fmt.Errorf("%s-%d: %w", topic, partition, err))
		})
		fetches.EachRecord(func(r *kgo.Record) {
			m.change(func() { m.seen = append(m.seen, record{string(r.Key), string(r.Value)}) })
		})
	}
}

func (m *franzMember) commit() error { return m.client.CommitUncommittedOffsets(context.Background()) }

func (m *franzMember) close() error {
	id, _ := m.client.GroupMetadata()
	m.client.Close()
	if m.login.Protocol == "consumer" && m.login.Instance != "" {
		return m.leaveForAWhile(id)
	}
	return nil
}

// leaveForAWhile says what the library's own leave (1.22.3) should: that one lacks the instance id, so brokers refuse it.
func (m *franzMember) leaveForAWhile(id string) error {
	client, err := m.login.franz()
	if err != nil {
		return err
	}
	defer client.Close()
	leave := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	leave.Group, leave.MemberID, leave.MemberEpoch, leave.InstanceID = m.group, id, -2, &m.login.Instance
	answer, err := leave.RequestWith(context.Background(), client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(answer.ErrorCode)
}
