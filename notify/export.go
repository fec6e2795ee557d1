package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
)

// Pages of an export: how many messages, so that a page takes Redis about a
// millisecond, and fewer where they are large.
const (
	exportFirst = 16
	exportMost  = 64
	exportLarge = 1 << 20 // bytes of records, above which a page is halved; below a quarter it is doubled
)

// Exported says what an export holds, and what it lacks.
type Exported struct {
	Scheduled  int `json:"scheduled"`
	Ready      int `json:"ready"`
	Leased     int `json:"leased"` // due when their leases end
	Dead       int `json:"dead"`
	Broadcasts int `json:"broadcasts"` // that wait for their due time

	Unplaced int      `json:"unplaced"`         // of these: stood nowhere, and are due now
	LeftOut  int      `json:"left_out"`         // records that are none of ours: without a name or a body
	Paused   []string `json:"paused,omitempty"` // topics; a pause is not exported

	Settings []string `json:"settings,omitempty"` // topics that have other settings of their own, and AllTopics where the store has some; they are not exported
}

// Total returns how many messages were exported.
func (e *Exported) Total() int { return e.Scheduled + e.Ready + e.Leased + e.Dead + e.Broadcasts }

// Export writes every message of the store as a line of JSON, which
// [ParseExported] reads, in no order: what is scheduled, ready or leased, dead
// letters, and broadcasts that wait. They stay where they are. What is leased is
// due when its lease ends, since whoever has it may be done with it by then; where
// the lease is not waited for it is handled twice. What cannot be read is a dead letter.
//
// It is no picture of one moment. A message that is there from the beginning to
// the end is exported once however often it moves meanwhile, or more than once where
// many messages go meanwhile; what comes or goes meanwhile may be exported or not.
// So nothing is missing where nobody publishes, and nothing twice where nobody handles, either.
//
// Named listeners and their places, broadcasts that were sent, settings of topics,
// pauses and counters are not exported. on, which may be nil, is told how many there are
// until now, and how many in all, after each page. Errors: that of the connection, or of w.
func (i *Inspector) Export(ctx context.Context, w io.Writer, on func(done, all int)) (Exported, error) {
	e := export{inspector: i, to: json.NewEncoder(w), page: exportFirst}
	e.to.SetEscapeHTML(false)
	for cursor := "0"; ; {
		next, all, err := e.step(ctx, cursor)
		if err != nil {
			return e.sum, fmt.Errorf("export: %w", err)
		}
		if on != nil {
			on(e.sum.Total(), all)
		}
		if cursor = next; cursor == "0" {
			break
		}
	}
	err := e.leftOut(ctx)
	return e.sum, err
}

// leftOut finds the topics of which something is not exported.
func (e *export) leftOut(ctx context.Context) error {
	paused, err := e.inspector.store.Only().Paused(ctx)
	if err != nil {
		return fmt.Errorf("export: look for paused topics: %w", err)
	}
	if slices.Sort(paused); len(paused) > 0 {
		e.sum.Paused = paused
	}
	if e.sum.Settings, err = e.inspector.store.Only().WithSettings(ctx); err != nil {
		return fmt.Errorf("export: look for settings of topics: %w", err)
	}
	return nil
}

// export is one export under way.
type export struct {
	inspector *Inspector
	to        *json.Encoder
	page      int
	now       time.Time // by Redis's clock, of the last page
	sum       Exported
}

// step exports a page, and returns where the next one begins and how many messages there are.
func (e *export) step(ctx context.Context, cursor string) (next string, all int, err error) {
	page, err := e.inspector.store.Only().Export(ctx, cursor, e.page)
	if err != nil {
		return "", 0, err
	}
	e.now = page.Now
	e.sum.LeftOut += page.Foreign
	size := 0
	for i := range page.Looks {
		size += page.Looks[i].Size
		if err := e.add(&page.Looks[i]); err != nil {
			return "", 0, err
		}
	}
	for _, member := range page.Alone {
		if err := e.alone(ctx, member); err != nil {
			return "", 0, err
		}
	}
	switch {
	case size > exportLarge:
		e.page = max(e.page/2, 1)
	case size < exportLarge/4:
		e.page = min(e.page*2, exportMost)
	}
	return page.Next, page.All, nil
}

// alone exports a message that did not fit into its page.
func (e *export) alone(ctx context.Context, member string) error {
	topic, _, err := store.SplitMember(member)
	if err != nil {
		e.sum.LeftOut++
		return nil
	}
	infos, err := e.inspector.inspect(ctx, topic, []string{member})
	if err != nil || len(infos) == 0 { // it went meanwhile
		return err
	}
	return e.write(infos[0])
}

// add exports a message of a page.
func (e *export) add(look *store.Look) error {
	topic, id, err := store.SplitMember(look.Member)
	if err != nil {
		e.sum.LeftOut++
		return nil
	}
	return e.write(infoOf(topic, id, look))
}

// write exports a message and counts it.
func (e *export) write(i Info) error {
	if i.lost() {
		e.sum.LeftOut++
		return nil
	}
	if i.State == 0 {
		i.State, i.Due = Ready, e.now
		e.sum.Unplaced++
	}
	if i.Fault != nil && i.State != Dead {
		i.State, i.Reason = Dead, i.Fault.Error()
	}
	switch {
	case i.State == Dead:
		e.sum.Dead++
	case i.Broadcast:
		e.sum.Broadcasts++
	case i.State == Leased:
		i.Due = i.Until.Add(time.Millisecond - 1).Truncate(time.Millisecond) // not before that
		e.sum.Leased++
	case i.State == Ready:
		e.sum.Ready++
	default:
		e.sum.Scheduled++
	}
	return e.to.Encode(i.restorable(e.now))
}

// restorable returns a message as a line that restores it. A time of it that is foreign is now for
// a death, and never for what would be handed out.
func (i Info) restorable(now time.Time) Line {
	line := i.Line()
	line.FirstDue, line.Died, line.Reason, line.AttemptsUsed = nil, nil, "", 0
	r := &Restore{}
	line.Restore = r
	if i.Published.UnixMilli() > 0 {
		r.Published = i.Published.UTC()
	}
	if !i.FirstDue.IsZero() && !r.Published.IsZero() {
		r.FirstDue = i.FirstDue.UTC()
	}
	if !i.Broadcast {
		r.AttemptsUsed = min(max(i.Attempts, 0), store.MostAttempts)
	}
	if i.State == Dead {
		r.Died, r.Reason = given(i.Died, now), short(i.Reason)
		return line
	}
	due := given(i.Due, store.MaxDue)
	line.Due = &due
	if i.TTL > 0 && !i.Expires.IsZero() {
		r.Expires = given(i.Expires, store.MaxDue)
	}
	return line
}

// given returns a time that there can be of what is restored, in UTC, or another where there is none.
func given(at, otherwise time.Time) time.Time {
	if at.UnixMilli() < 1 {
		at = otherwise
	}
	return at.UTC()
}

// short cuts a reason to what may be restored.
func short(reason string) string {
	return strings.ToValidUTF8(reason[:min(len(reason), maxReason)], "")
}
