package notify

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
)

// MaxPage is the most messages that one page of a list holds.
const MaxPage = 500

// listScans is how many pieces of a place one call of List looks at before it
// returns a short page.
const listScans = 20

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
func (p *Publisher) Inspect(ctx context.Context, topic, id string) (Info, error) {
	if err := checkName(topic, id); err != nil {
		return Info{}, err
	}
	infos, err := inspect(ctx, p.store, topic, []string{store.Member(topic, id)})
	if err == nil && len(infos) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Info{}, fmt.Errorf("inspect %s: %w", store.Member(topic, id), err)
	}
	return infos[0], nil
}

// A Page is a part of a list.
type Page struct {
	Messages []Info
	Cursor   string // where the next page begins; empty at the end
}

// List returns a page of up to limit messages of a topic in one state, by time:
// the due time of Scheduled and Ready ones, the end of the lease, the time of
// death. It goes on at the cursor of the page before; an empty cursor is the
// beginning. A page may be short, even empty, and not be the last one: look at
// its Cursor. Errors: ErrInvalid, or that of the connection.
func (p *Publisher) List(ctx context.Context, topic string, state State, limit int, cursor string) (Page, error) {
	return List(ctx, p.store, topic, state, limit, cursor)
}

// Broadcasts returns a page of the broadcasts of a topic that wait for their due
// time, as List does for messages.
func (p *Publisher) Broadcasts(ctx context.Context, topic string, limit int, cursor string) (Page, error) {
	return list(ctx, p.store, topic, store.PlaceBroadcasts, Scheduled, limit, cursor)
}

// List is [Publisher.List] of a store.
func List(ctx context.Context, s *Store, topic string, state State, limit int, cursor string) (Page, error) {
	if state < Scheduled || state > Dead {
		return Page{}, store.Faultf("state", "state %v: use Scheduled, Ready, Leased or Dead", state)
	}
	return list(ctx, s, topic, placeOf[state], state, limit, cursor)
}

// placeOf is the place of what is in a state, broadcasts aside.
var placeOf = map[State]store.Place{
	Scheduled: store.PlaceSchedule, Ready: store.PlaceReady, Leased: store.PlaceLeased, Dead: store.PlaceDead,
}

// list lists a place whose messages are in a state.
func list(ctx context.Context, s *Store, topic string, place store.Place, state State, limit int, cursor string) (Page, error) {
	if err := store.CheckTopic(topic); err != nil {
		return Page{}, err
	}
	if limit < 1 || limit > MaxPage {
		return Page{}, store.Faultf("limit", "limit %d: use 1 to %d", limit, MaxPage)
	}
	mark, err := parseCursor(cursor)
	if err != nil {
		return Page{}, err
	}
	var members []string
	for range listScans {
		var more []string
		if more, mark, err = s.Of(topic).List(ctx, topic, place, limit-len(members), mark); err != nil {
			return Page{}, fmt.Errorf("list %s: %w", topic, err)
		}
		if members = append(members, more...); mark.Time == "" || len(members) == limit {
			break
		}
	}
	infos, err := inspect(ctx, s, topic, members)
	if err != nil {
		return Page{}, fmt.Errorf("list %s: %w", topic, err)
	}
	infos = slices.DeleteFunc(infos, func(i Info) bool { return i.State != state }) // it went on meanwhile
	return Page{Messages: infos, Cursor: formatCursor(mark)}, nil
}

// formatCursor makes one opaque text of where a page ended.
func formatCursor(mark store.Mark) string {
	if mark.Time == "" {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString([]byte(mark.Time + " " + mark.Member))
}

func parseCursor(cursor string) (mark store.Mark, err error) {
	if cursor == "" {
		return mark, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	time, member, ok := strings.Cut(string(raw), " ")
	if _, bad := strconv.ParseInt(time, 10, 64); err != nil || bad != nil || !ok {
		return mark, store.Faultf("cursor", "cursor %.100q: use the cursor of the page before, or none", cursor)
	}
	return store.Mark{Time: time, Member: member}, nil
}

// inspect looks at members of one topic and leaves out those that are gone.
func inspect(ctx context.Context, s *Store, topic string, members []string) ([]Info, error) {
	looks, err := s.Of(topic).Inspect(ctx, topic, members)
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
