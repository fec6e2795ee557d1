package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify/store/script"
)

var relayScript = script.New("relay", script.Promised, script.Grows)

// ErrStale is the error of a relay since whose beginning another one began at the shard. Nothing was published.
var ErrStale = errors.New("another relay of this outbox began since")

// A Row is a row of an outbox. A database that lost its end, such as one that took another's place, may give a number again, but not with the time.
type Row struct {
	Seq    int64
	Called time.Time // cut to the microsecond
}

// String returns SEQ:CALLED, as the shard notes the row.
func (r Row) String() string {
	return strconv.FormatInt(r.Seq, 10) + ":" + strconv.FormatInt(r.Called.UnixMicro(), 10)
}

// rowIn reads SEQ:CALLED.
func rowIn(text string) (r Row, ok bool) {
	seq, called, _ := strings.Cut(text, ":")
	n, err := strconv.ParseInt(seq, 10, 64)
	us, errCalled := strconv.ParseInt(called, 10, 64)
	return Row{Seq: n, Called: time.UnixMicro(us)}, err == nil && errCalled == nil
}

// Tick is how long after one call another one gives its messages later due times. Of those that have the same, the id decides.
const Tick = time.Millisecond

// A Relay is who moves the rows of an outbox into the shards, where it begins at each.
type Relay struct {
	Outbox string // its id
	Token  string // of the beginning, which no other has
	Batch  int64  // of rows that leave the outbox together, behind all that were taken of batches before
}

// A Relayed is a message of a row.
type Relayed struct {
	Publish
	Row  Row
	Kept bool // the row goes, too, where the message's id is in use
}

// BeginRelay begins at a shard. It returns the rows that the shard took of the last batch, which are to be deleted before anything is published;
// calls of a relay that began before are refused from then on. Errors: ErrFormat, and those of Publish.
func (s Shard) BeginRelay(ctx context.Context, r Relay) (taken []Row, err error) {
	if err := s.Needs(ctx, FormatOfGroups, "the outbox"); err != nil {
		return nil, err
	}
	reply, err := s.Run(ctx, relayScript, r.Outbox, r.Token)
	if err != nil {
		return nil, err
	}
	for _, text := range strings.Fields(reply.Text()) {
		row, ok := rowIn(text)
		if !ok {
			return nil, fmt.Errorf("what is noted of the outbox %s is unreadable, %.100q; run bellhop doctor --repair", r.Outbox, text)
		}
		taken = append(taken, row)
	}
	return taken, reply.End()
}

// Relay publishes messages of rows, either all with an As, one after the other, or none. It notes with it which rows the shard took. What became
// of each is as of Publish and PublishAs, but OutcomeKept of a row that is kept. Errors: ErrStale, and those of Publish; Relay repeats
// nothing, and after any of them what became of the messages is learned by BeginRelay.
func (s Shard) Relay(ctx context.Context, r Relay, rows []Relayed) ([]Placed, error) {
	batch := make([]Publish, len(rows))
	for i := range rows {
		batch[i] = rows[i].Publish
	}
	way, own, order := relayArgs(batch)
	args := make([]any, 0, 5+len(rows)+len(own)+2)
	args = append(args, r.Outbox, r.Token, r.Batch, way, len(rows))
	for _, i := range order {
		args = append(args, rows[i].noted())
	}
	reply, err := s.Run(ctx, relayScript, append(args, own...)...)
	if err != nil {
		return nil, err
	}
	return s.relayed(reply, batch, order)
}

// relayArgs returns which script publishes a batch, the arguments of that, and the indexes of its messages in the order of the reply.
func relayArgs(batch []Publish) (way int, args []any, order []int) {
	if batch[0].As == nil {
		args, order = publishArgs(batch)
		return 0, args, order
	}
	for i := range batch {
		order = append(order, i)
	}
	return 1, publishAsArgs(batch), order
}

// noted returns the row as the script gets it.
func (r *Relayed) noted() string {
	if r.Kept {
		return "+" + r.Row.String()
	}
	return r.Row.String()
}

// relayed reads what became of the messages of rows.
func (s Shard) relayed(r *script.Reply, batch []Publish, order []int) (all []Placed, err error) {
	if r.Text() == "" && r.End() == nil {
		return nil, ErrStale
	}
	left := make(map[int]bool)
	for _, i := range r.List().Indexes(len(batch)) {
		left[order[i]] = true
	}
	if batch[0].As == nil {
		all, err = s.published(r, batch, order)
	} else {
		all, err = publishedAs(r, len(batch))
	}
	for i := range all {
		if all[i].Refusal != 0 && !left[i] {
			all[i] = Placed{Outcome: OutcomeKept}
		}
	}
	return all, err
}
