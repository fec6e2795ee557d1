package notify

import (
	"context"
	"encoding/base64"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
)

// MaxPage is the most messages that one page of a list holds.
const MaxPage = 500

const (
	messagesPage = 50 // messages that Messages reads at a time: bodies may be large
	listScans    = 20 // pieces of a place that one call of List reads before it returns a short page
)

// A Page is a part of a list.
type Page struct {
	Messages []Info
	Cursor   string // where the next page begins; empty at the end
}

// List returns a page of up to limit messages of a topic in one state, by time: the
// due time of Scheduled and Ready ones, of Blocked ones key and due time, the end of the lease, the time of death, the time until which a
// Done one is kept. Done are those that are kept with what AckWith left: other ids that
// stay taken are in no list. It
// goes on at the cursor of the page before; an empty cursor is the beginning. A page
// may be short, even empty, before the last one: read its Cursor. Errors: ErrInvalid,
// or that of the connection.
func (i *Inspector) List(ctx context.Context, topic string, state State, limit int, cursor string) (Page, error) {
	if placeOf[state] == 0 {
		return Page{}, fault.New("state", "state %v: use Scheduled, Ready, Blocked, Leased, Dead or Done", state)
	}
	return i.list(ctx, topic, placeOf[state], state, false, limit, cursor)
}

// LatestDead is List for dead letters, the latest death first. Package reasons counts them
// by what they died of.
func (i *Inspector) LatestDead(ctx context.Context, topic string, limit int, cursor string) (Page, error) {
	return i.list(ctx, topic, script.PlaceDead, Dead, true, limit, cursor)
}

// Messages returns all messages of a topic in one state, in the order of List. It
// reads a page at a time while the loop runs: a message whose time moves back meanwhile,
// as that of an extended lease, comes again. The last pair has the error of List, if
// there is one.
func (i *Inspector) Messages(ctx context.Context, topic string, state State) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		for cursor := ""; ; {
			page, err := i.List(ctx, topic, state, messagesPage, cursor)
			if err != nil {
				yield(Info{}, err)
				return
			}
			for _, info := range page.Messages {
				if !yield(info, nil) {
					return
				}
			}
			if cursor = page.Cursor; cursor == "" {
				return
			}
		}
	}
}

// Broadcasts is List for the broadcasts of a topic that were not sent yet.
func (i *Inspector) Broadcasts(ctx context.Context, topic string, limit int, cursor string) (Page, error) {
	return i.list(ctx, topic, script.PlaceBroadcasts, Scheduled, false, limit, cursor)
}

// placeOf is the place of the messages in a state.
var placeOf = map[State]script.Place{
	Scheduled: script.PlaceScheduled, Ready: script.PlaceReady, Blocked: script.PlaceBlocked, Leased: script.PlaceLeased, Dead: script.PlaceDead,
	Done: script.PlaceDone,
}

// list returns a page of a place whose messages are in a state, with latest in the reverse
// order of time.
func (i *Inspector) list(ctx context.Context, topic string, place script.Place, state State, latest bool, limit int, cursor string) (Page, error) {
	if err := record.CheckAnyTopic(topic); err != nil {
		return Page{}, err
	}
	if err := fault.Within("limit", "limit", limit, 1, MaxPage); err != nil {
		return Page{}, err
	}
	mark, err := parseCursor(cursor, place)
	if err != nil {
		return Page{}, err
	}
	var members []string
	for range listScans {
		var more []string
		if more, mark, err = i.store.Of(topic).List(ctx, topic, place, latest, limit-len(members), mark); err != nil {
			return Page{}, fmt.Errorf("list %s: %w", topic, err)
		}
		if members = append(members, more...); mark.Time == "" || len(members) == limit {
			break
		}
	}
	infos, err := i.inspect(ctx, topic, members)
	if err != nil {
		return Page{}, fmt.Errorf("list %s: %w", topic, err)
	}
	infos = slices.DeleteFunc(infos, func(i Info) bool { return i.State != state }) // it changed meanwhile
	return Page{Messages: infos, Cursor: formatCursor(mark)}, nil
}

// formatCursor returns the end of a page as one opaque text.
func formatCursor(mark store.Mark) string {
	if mark.Time == "" {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString([]byte(mark.Time + " " + mark.Member))
}

func parseCursor(cursor string, place script.Place) (mark store.Mark, err error) {
	if cursor == "" {
		return mark, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	time, member, ok := strings.Cut(string(raw), " ")
	whole := time
	if place == script.PlaceLeased {
		whole = strings.TrimSuffix(time, ".5") // of a hand-over
	}
	if _, bad := strconv.ParseInt(whole, 10, 64); err != nil || bad != nil || !ok {
		return mark, fault.New("cursor", "cursor %.100q: use the cursor of the page before, or none", cursor)
	}
	return store.Mark{Time: time, Member: member}, nil
}
