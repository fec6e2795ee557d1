package notify

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
)

// An Inspector looks at what a store holds, and operates it: it lists and counts, sets topics up, and
// deals with dead letters and named listeners. It is safe for concurrent use and needs no closing.
type Inspector struct{ store *Store }

// NewInspector returns an inspector of a store. The error is a Fault of a nil store.
func NewInspector(s *Store) (*Inspector, error) {
	if err := store.CheckStore(s); err != nil {
		return nil, err
	}
	return &Inspector{s}, nil
}

// Info is what is known of a message.
type Info struct {
	Topic string
	ID    string
	State State

	// Due is when a Scheduled message is due, or since when a Ready one is.
	Due time.Time
	// Until is when the lease of a Leased message ends.
	Until time.Time
	// Died is when a Dead message died, and Reason is why.
	Died   time.Time
	Reason string

	Attempts int       // used up
	Expires  time.Time // zero: never
	Record
	// Fault says why the record cannot be read; nil if it can. Body is all of the record then.
	Fault error
}

// Inspect looks at a message. Errors: ErrInvalid, ErrNotFound, or that of the connection.
func (i *Inspector) Inspect(ctx context.Context, topic, id string) (Info, error) {
	if err := checkName(topic, id); err != nil {
		return Info{}, err
	}
	infos, err := i.inspect(ctx, topic, []string{store.Member(topic, id)})
	if err == nil && len(infos) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Info{}, fmt.Errorf("inspect %s: %w", store.Member(topic, id), err)
	}
	return infos[0], nil
}

// inspect looks at members of one topic and leaves out those that are gone.
func (i *Inspector) inspect(ctx context.Context, topic string, members []string) ([]Info, error) {
	looks, err := i.store.Of(topic).Inspect(ctx, topic, members)
	if err != nil {
		return nil, err
	}
	var infos []Info
	for _, look := range looks {
		if look.State != 0 {
			infos = append(infos, infoOf(topic, strings.TrimPrefix(look.Member, topic+":"), &look))
		}
	}
	return infos, nil
}

// infoOf returns what is known of a message.
func infoOf(topic, id string, look *store.Look) Info {
	info := Info{
		Topic: topic, ID: id, State: look.State, Attempts: look.Attempts, Expires: look.Expires, Reason: look.Reason,
		Record: look.Record, Fault: look.Fault,
	}
	switch look.State {
	case Leased:
		info.Until = look.At
	case Dead:
		info.Died, info.Expires = look.At, time.Time{} // which the carrier forgets when it comes
	default:
		info.Due = look.At
	}
	return info
}

// lost reports whether there is no body, not even an empty one: the record is missing, or nothing stands in it.
func (i Info) lost() bool { return i.Fault != nil && len(i.Body) == 0 }
