package notify

import (
	"context"
	_ "embed"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
)

var (
	//go:embed look.lua
	look string

	//go:embed inspect.lua
	inspectSource string
	inspectScript = store.NewScript("inspect", look+inspectSource)

	//go:embed list.lua
	listSource string
	listScript = store.NewScript("list", listSource)
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
	infos, err := inspect(ctx, p.store, topic, []string{Member(topic, id)})
	if err == nil && len(infos) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Info{}, fmt.Errorf("inspect %s: %w", Member(topic, id), err)
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
	return list(ctx, p.store, topic, "broadcasts", Scheduled, limit, cursor)
}

// List is [Publisher.List] of a store.
func List(ctx context.Context, s *Store, topic string, state State, limit int, cursor string) (Page, error) {
	if state < Scheduled || state > Dead {
		return Page{}, Faultf("state", "state %v: use Scheduled, Ready, Leased or Dead", state)
	}
	return list(ctx, s, topic, state.String(), state, limit, cursor)
}

// list lists a place whose messages are in a state.
func list(ctx context.Context, s *Store, topic, place string, state State, limit int, cursor string) (Page, error) {
	if err := CheckTopic(topic); err != nil {
		return Page{}, err
	}
	if limit < 1 || limit > MaxPage {
		return Page{}, Faultf("limit", "limit %d: use 1 to %d", limit, MaxPage)
	}
	time, last, err := parseCursor(cursor)
	if err != nil {
		return Page{}, err
	}
	var members []string
	for range listScans {
		reply, err := s.Run(ctx, listScript, s.Keys().Topic(topic), topic, place, limit-len(members), time, last)
		if err != nil {
			return Page{}, fmt.Errorf("list %s: %w", topic, err)
		}
		time, last = reply[0].(string), reply[1].(string)
		for _, member := range reply[2].([]any) {
			members = append(members, member.(string))
		}
		if time == "" || len(members) == limit {
			break
		}
	}
	if len(members) == 0 {
		return Page{Cursor: formatCursor(time, last)}, nil
	}
	page := Page{Cursor: formatCursor(time, last)}
	infos, err := inspect(ctx, s, topic, members)
	if err != nil {
		return Page{}, fmt.Errorf("list %s: %w", topic, err)
	}
	page.Messages = slices.DeleteFunc(infos, func(i Info) bool { return i.State != state }) // it went on meanwhile
	return page, nil
}

// formatCursor makes one opaque text of the time and the member that a page ended at.
func formatCursor(time, last string) string {
	if time == "" {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString([]byte(time + " " + last))
}

func parseCursor(cursor string) (time, last string, err error) {
	if cursor == "" {
		return "", "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	time, last, ok := strings.Cut(string(raw), " ")
	if _, bad := strconv.ParseInt(time, 10, 64); err != nil || bad != nil || !ok {
		return "", "", Faultf("cursor", "cursor %.100q: use the cursor of the page before, or none", cursor)
	}
	return time, last, nil
}

// inspect looks at members of one topic and leaves out those that are gone.
func inspect(ctx context.Context, s *Store, topic string, members []string) ([]Info, error) {
	var infos []Info
	for len(members) > 0 {
		args := make([]any, len(members))
		for i, member := range members {
			args[i] = member
		}
		reply, err := s.Run(ctx, inspectScript, s.Keys().Topic(topic), args...)
		if err != nil {
			return nil, err
		}
		for i, one := range reply {
			if info, ok := readInfo(topic, members[i], one.([]any)); ok {
				infos = append(infos, info)
			}
		}
		members = members[len(reply):]
	}
	return infos, nil
}

// readInfo reads one message of inspect.lua's reply; false if there is none.
func readInfo(topic, member string, fields []any) (Info, bool) {
	name, _ := fields[1].(string)
	state, err := ParseState(name)
	if err != nil {
		return Info{}, false
	}
	return infoOf(topic, strings.TrimPrefix(member, topic+":"), state, fields), true
}

// infoOf reads what look.lua says of a message in a state; zero where it stands nowhere.
func infoOf(topic, id string, state State, fields []any) Info {
	info := Info{Topic: topic, ID: id, State: state, Expires: TimeOf(fields[4])}
	switch at := TimeOf(fields[2]); state {
	case Leased:
		info.Until = microsOf(fields[2])
	case Dead:
		info.Died, info.Expires = at, time.Time{} // which the carrier forgets when it comes
	default:
		info.Due = at
	}
	attempts, _ := fields[3].(string)
	info.Attempts, _ = strconv.Atoi(attempts)
	info.Reason, _ = fields[5].(string)
	raw, there := fields[6].(string)
	if !there {
		info.Fault = fmt.Errorf("%w: it is missing", ErrRecord)
		return info
	}
	if info.Record, info.Fault = store.DecodeRecord(raw); info.Fault != nil {
		info.Body = []byte(raw) // so that an export loses nothing
	}
	return info
}

// lost reports whether there is no body, not even an empty one: the record is missing, or nothing stands in it.
func (i Info) lost() bool { return i.Fault != nil && len(i.Body) == 0 }

// TimeOf reads the score of a sorted set, as Redis writes it, as a time in
// milliseconds. What is missing, or beyond the times that there can be (MaxDue), is zero.
func TimeOf(score any) time.Time {
	text, _ := score.(string)
	ms, err := strconv.ParseFloat(text, 64)
	if err != nil || ms < 0 || ms > float64(maxDueMs) {
		return time.Time{}
	}
	return time.UnixMilli(int64(ms))
}

// microsOf is TimeOf of a score in microseconds.
func microsOf(score any) time.Time {
	text, _ := score.(string)
	us, err := strconv.ParseFloat(text, 64)
	if err != nil || us < 0 || us > float64(maxDueMs)*1000 {
		return time.Time{}
	}
	return time.UnixMicro(int64(us))
}
