// Command goclients lets a test drive clients that are written in Go: an order is a line of JSON, and so is its answer.
//
// It ends when its standard input closes. An order names the library: franz-go, or sarama with SaslHandshake v0.
package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"
)

type login struct {
	Servers, Mechanism, User, Password string
	CAFile, Certificate, Key           string
	Protocol, Instance                 string
}

type order struct {
	Do, Library  string
	Login        login
	Topic, Group string
	Partitions   int32
	Records      []record
	Member       int
}

// A record is a key and a value.
type record [2]string

type answer struct {
	Error  string   `json:"error,omitempty"`
	Member int      `json:"member"`
	Owned  []int32  `json:"owned"`
	Seen   []record `json:"seen"`
}

type library interface {
	create(l login, topic string, partitions int32) error
	produce(l login, topic string, records []record) error
	join(l login, group, topic string) (member, error)
}

type member interface {
	look() (owned []int32, seen []record, failure error)
	commit() error
	close() error
}

// progress is what a member that polls in the background has come to.
type progress struct {
	mutex   sync.Mutex
	owned   []int32
	seen    []record
	failure error
}

func (p *progress) change(how func()) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	how()
}

func (p *progress) fail(err error) {
	p.change(func() {
		if p.failure == nil {
			p.failure = err
		}
	})
}

func (p *progress) look() ([]int32, []record, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return slices.Clone(p.owned), slices.Clone(p.seen), p.failure
}

// tls trusts the authority alone, and shows the client's own certificate where it has one.
func (l login) tls() (*tls.Config, error) {
	authority, err := os.ReadFile(l.CAFile)
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(authority)
	config := &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}
	if l.Certificate != "" {
		own, err := tls.LoadX509KeyPair(l.Certificate, l.Key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config, nil
}

func main() {
	libraries := map[string]library{"franz-go": franz{}, "sarama": saramaV0{}}
	members := map[int]member{}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	answers := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var given order
		found, err := answer{}, json.Unmarshal(lines.Bytes(), &given)
		if err == nil {
			found, err = carryOut(given, libraries[given.Library], members)
		}
		if err != nil {
			found.Error = err.Error()
		}
		if err := answers.Encode(found); err != nil {
			return
		}
	}
}

func carryOut(o order, clients library, members map[int]member) (found answer, err error) {
	switch o.Do {
	case "create":
		err = clients.create(o.Login, o.Topic, o.Partitions)
	case "produce":
		err = clients.produce(o.Login, o.Topic, o.Records)
	case "join":
		found.Member = len(members)
		members[found.Member], err = clients.join(o.Login, o.Group, o.Topic)
	case "look":
		found.Owned, found.Seen, err = members[o.Member].look()
	case "commit":
		err = members[o.Member].commit()
	case "close":
		err = members[o.Member].close()
	default:
		err = fmt.Errorf("no order is called %q", o.Do)
	}
	return found, err
}
