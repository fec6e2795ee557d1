package notify

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// An Inspector reads and operates a store: it lists and counts messages, changes
// settings of topics, and works on dead letters and named listeners. It is safe for
// concurrent use and needs no closing.
type Inspector struct{ store *Store }

// NewInspector returns an inspector of a store. The error is a Fault for a nil store.
func NewInspector(s *Store) (*Inspector, error) {
	if err := store.CheckStore(s); err != nil {
		return nil, err
	}
	return &Inspector{s}, nil
}

// Info is what a store holds of a message.
type Info struct {
	Topic string
	ID    string
	State State

	Due    time.Time // when a Scheduled message is due, or since when a Ready or Blocked one is; zero for one that only waits for a group
	Until  time.Time // when the lease of a Leased message ends, or the id of a Done one is free
	Died   time.Time // when a Dead message died
	Reason string    // why it died

	Attempts int             // used up
	History  []Attempt       // of the last attempts that failed, oldest first
	By       string          // name of the worker that has a Leased message, or that acknowledged a Done one; empty: unknown
	Since    time.Time       // when that claimed it; zero: unknown
	Progress *store.Progress // of the work on a Leased message; nil: nothing was told of that
	Stop     time.Time       // when a Leased message was to be cancelled, see [Publisher.Cancel]; zero: it was not
	Behind   []string        // ids of those of its key that a Blocked message waits for
	Ended    time.Time       // when a Done message was acknowledged; zero: only its id is taken
	Result   []byte          // that the acknowledgement of a Done message left; nil: none
	Snoozed  int             // how often it was snoozed
	Moved    time.Time       // when it was rescheduled last, if it had used up attempts then; zero: never, or unknown
	Expires  time.Time       // zero: never
	Left     *int64          // how many are left of the group that a Scheduled message waits for; nil: it waits for none
	Next     *Record         // what follows it once it ended (After), due at its FirstDue; nil: nothing does
	Record
	Fault error // why the record cannot be read, with the whole record as Body; nil if it can
}

// Inspect returns what the store holds of a message. Errors: ErrInvalid, ErrNotFound, or that of the connection.
func (i *Inspector) Inspect(ctx context.Context, topic, id string) (Info, error) {
	if err := checkName(topic, id); err != nil {
		return Info{}, err
	}
	infos, err := i.inspect(ctx, topic, []string{record.Member(topic, id)})
	if err == nil && len(infos) == 0 {
		err = i.absent(ctx, topic)
	}
	if err != nil {
		return Info{}, fmt.Errorf("inspect %s: %w", record.Member(topic, id), err)
	}
	return infos[0], nil
}

// absent returns why a message is not there, which names the branches that may have its copies.
func (i *Inspector) absent(ctx context.Context, topic string) error {
	if settings, err := i.settings(ctx, topic); err == nil && settings.Branches != "" {
		return fmt.Errorf("%w; what was ready was copied into %s", ErrNotFound, strings.Join(settings.BranchesOf(topic), ", "))
	}
	return ErrNotFound
}

// inspect returns what the store holds of members of one topic, without those that
// are gone.
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

// InfoOf returns the Info of a message that a store was asked about. The error is a Fault for a
// member that is none of ours.
func InfoOf(look *store.Inspected) (Info, error) {
	topic, id, err := record.SplitMember(look.Member)
	if err != nil {
		return Info{}, err
	}
	return infoOf(topic, id, look), nil
}

// infoOf returns an Info from the store's answer.
func infoOf(topic, id string, look *store.Inspected) Info {
	info := Info{
		Topic: topic, ID: id, State: look.State, Attempts: look.Attempts, Expires: look.Expires, Reason: look.Reason,
		Snoozed: look.Snoozed, Left: look.Left, Next: look.Next,
		History: look.History, By: look.By, Since: look.Since, Progress: look.Progress, Behind: look.Behind, Ended: look.Ended, Result: look.Result,
		Record: look.Record, Fault: look.Fault,
	}
	if look.Moved > 0 {
		info.Moved = time.UnixMilli(look.Moved)
	}
	switch look.State {
	case Leased, Done:
		info.Until, info.Stop = look.At, look.Stop
	case Dead:
		info.Died, info.Expires = look.At, time.Time{} // the carrier forgets the old time to live later
	default:
		if info.Due = look.At; look.Left != nil && info.Due.Equal(record.MaxDue) {
			info.Due, info.FirstDue = time.Time{}, time.Time{}
		}
	}
	return info
}

// lost reports whether there is no body, not even an empty one: the record is missing,
// or empty.
func (i Info) lost() bool { return i.Fault != nil && len(i.Body) == 0 }
