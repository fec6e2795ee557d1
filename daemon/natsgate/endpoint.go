package natsgate

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/nats-io/nats.go"
)

const (
	maxWaiting     = 65_536   // waiting requests of an endpoint, beyond which the newest are lost
	maxWaitingSize = 64 << 20 // bytes of them, if they have bodies
	maxSmallSize   = 8 << 20  // bytes of them, if they have none
)

// A request is a request over NATS.
type request struct {
	conn   *connection
	name   string // the rest of its subject behind the endpoint: a topic, or what names a claimed message
	reply  string
	header nats.Header
	data   []byte

	finish func(*nats.Msg, error) // answers it, where the handler returned neither a reply nor an error
}

// An endpoint handles the requests of one kind.
type endpoint struct {
	name   string // also the token behind the prefix in its subjects
	rest   string // wildcard at the end of its subject; empty: none
	silent bool   // accepts requests without a reply subject
	most   int    // bytes of waiting requests
	turns  turns  // that requests take until they are answered; nil: their answers have no bodies
	handle func(context.Context, request) (*nats.Msg, error)
	tally  *tally
}

// A service is what a gateway offers on one connection: its endpoints, and the discovery of them (the micro services of NATS,
// ADR-32). The client library's own discovery would answer to any reply subject, with the gateway's rights.
type service struct {
	subs []*nats.Subscription
	stop func() error // ends the subscriptions once; messages received before are still handled
}

// newService returns a service without subscriptions.
func newService() *service {
	s := &service{}
	s.stop = sync.OnceValue(func() (err error) {
		for _, sub := range s.subs {
			err = errors.Join(err, sub.Drain())
		}
		return err
	})
	return s
}

// add adds a subscription, with limits for its waiting messages.
func (s *service) add(sub *nats.Subscription, err error, messages, bytes int) error {
	if err != nil {
		return err
	}
	s.subs = append(s.subs, sub)
	return sub.SetPendingLimits(messages, bytes)
}

// jsonMessage returns a reply of JSON.
func jsonMessage(v any) *nats.Msg {
	m := nats.NewMsg("")
	m.Header.Set("Content-Type", "application/json")
	m.Data, _ = json.Marshal(v) // of types that always can
	return m
}

// wireSize returns the bytes of a message that count towards max_payload: its header and data.
func wireSize(m *nats.Msg) int { return m.Size() - len(m.Subject) - len(m.Reply) }
