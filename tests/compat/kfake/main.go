// Command kfake serves franz-go's in-memory Kafka on loopback, as a peer for the compat tests and benchmarks.
//
// It prints its addresses as one line, "ready host:port,host:port", and ends when its standard input closes, so
// that it never outlives the process that started it.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	brokers := flag.Int("brokers", 3, "number of brokers")
	ports := flag.String("ports", "", "comma-separated ports, one per broker; any free ones by default")
	partitions := flag.Int("partitions", 1, "partitions of auto-created topics")
	var configs settings
	flag.Var(&configs, "config", "broker setting as key=value, repeatable")
	flag.Parse()

	options := []kfake.Opt{
		kfake.NumBrokers(*brokers),
		kfake.AllowAutoTopicCreation(),
		kfake.DefaultNumPartitions(*partitions),
	}
	if len(configs) > 0 {
		options = append(options, kfake.BrokerConfigs(configs))
	}
	if *ports != "" {
		numbers, err := parsePorts(*ports)
		fail(err)
		options = append(options, kfake.Ports(numbers...))
	}
	cluster, err := kfake.NewCluster(options...)
	fail(err)
	defer cluster.Close()
	fmt.Println("ready", strings.Join(cluster.ListenAddrs(), ","))
	_, _ = io.Copy(io.Discard, os.Stdin)
}

type settings map[string]string

func (s *settings) String() string { return fmt.Sprint(map[string]string(*s)) }

func (s *settings) Set(pair string) error {
	key, value, found := strings.Cut(pair, "=")
	if !found {
		return fmt.Errorf("%q is not key=value", pair)
	}
	if *s == nil {
		*s = settings{}
	}
	(*s)[key] = value
	return nil
}

func parsePorts(text string) ([]int, error) {
	var numbers []int
	for _, field := range strings.Split(text, ",") {
		var number int
		if _, err := fmt.Sscanf(field, "%d", &number); err != nil {
			return nil, fmt.Errorf("port %q: %w", field, err)
		}
		numbers = append(numbers, number)
	}
	return numbers, nil
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "kfake:", err)
		os.Exit(1)
	}
}
