package natsgate

import (
	"crypto/rand"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

const answerBuffer = 16 // waiting answers for one message

// answers are the answers to the messages that were delivered on a connection.
type answers struct {
	inbox string // prefix of the reply subjects

	mu      sync.Mutex
	waiting map[string]chan *nats.Msg // by the last token of the reply subject
	out     map[string]int            // deliveries under way, by their subjects
}

// pass passes an answer to the delivery that waits for it, and reports whether one does. An answer finds room in place of the oldest:
// one that settles is a client's last, and those before it ask for more time.
func (a *answers) pass(m *nats.Msg) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	waiting := a.waiting[strings.TrimPrefix(m.Subject, a.inbox)]
	if waiting == nil {
		return false // it comes too late
	}
	for {
		select {
		case waiting <- m:
			return true
		default:
		}
		select {
		case <-waiting:
		default: // the delivery took one itself
		}
	}
}

// expect returns a reply subject for a message on a subject, and a channel that gets its answers until done is called.
func (a *answers) expect(subject string) (reply string, got <-chan *nats.Msg, done func()) {
	key := rand.Text() // so that a client cannot guess the reply subject of another delivery
	waiting := make(chan *nats.Msg, answerBuffer)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting[key] = waiting
	a.out[subject]++
	return a.inbox + key, waiting, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.waiting, key)
		if a.out[subject]--; a.out[subject] == 0 {
			delete(a.out, subject)
		}
	}
}

// expects reports whether a delivery to a subject is under way.
func (a *answers) expects(subject string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.out[subject] > 0
}
