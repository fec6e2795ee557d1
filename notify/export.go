package notify

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// How many messages a page of an export has. A page takes Redis about a millisecond,
// so one of large messages has fewer.
const (
	exportFirst = 16
	exportMost  = 64
	exportLarge = 1 << 20 // bytes of records: the next page is half as long above, twice as long below a quarter
)

// Exported is what an export holds, and what it lacks.
type Exported struct {
	Scheduled  int `json:"scheduled"`
	Ready      int `json:"ready"`  // or blocked
	Leased     int `json:"leased"` // due when their leases end
	Dead       int `json:"dead"`
	Broadcasts int `json:"broadcasts"` // not sent yet

	Schedules int `json:"schedules"`
	Pushes    int `json:"pushes"`
	Groups    int `json:"groups"`

	Unplaced int      `json:"unplaced"`         // of these: in no place, so they are due when they were first, or now
	LeftOut  int      `json:"left_out"`         // foreign records: without a name or a body, and schedules, pushes and groups that cannot be read
	Paused   []string `json:"paused,omitempty"` // topics; a pause is not exported

	Settings []string `json:"settings,omitempty"` // topics with other settings of their own, and AllTopics if the store has some; they are not exported
}

// Total returns how many messages were exported.
func (e *Exported) Total() int { return e.Scheduled + e.Ready + e.Leased + e.Dead + e.Broadcasts }

// Export writes every message of the store as a line of JSON, which [ParseExported]
// reads, in no order: scheduled, ready and leased messages, dead letters, and
// broadcasts that were not sent yet. They stay where they are. A leased message is
// exported as due when its lease ends, because its worker may have finished it by
// then; published elsewhere before that, it is handled twice. A message that cannot be
// read is exported as a dead letter.
//
// Before the messages it writes schedules and pushes, as lines with a kind, which the
// command restores: a push with its secrets, a schedule with how far it was. What that
// made until then is among the messages, and what it makes meanwhile is left out.
// Behind the messages it writes the groups, with what became of those that left them.
//
// An export is no snapshot. A message that is there from beginning to end is exported
// once, however often it moves meanwhile; more than once if many messages go
// meanwhile. A message that comes or goes meanwhile may be exported or not, and what is
// copied into branches goes there, and comes anew. So nothing is missing if nobody
// publishes or copies, and nothing comes twice if nobody handles messages, either.
//
// Not exported are named listeners and their positions, broadcasts that were sent, ids
// that stay taken after the end of their messages, settings of topics, pauses and
// counters. Export calls on, which may be nil, after
// each page: with how many messages are done, and how many there are in all, as far as
// each shard has told by then. Errors: that of the connection, or of w; that Redis was
// restarted, or replaced by a replica, so that messages may be missing; or a
// [MissingError] where shards are away, and the others are exported.
func (i *Inspector) Export(ctx context.Context, w io.Writer, on func(done, all int)) (Exported, error) {
	e := export{to: json.NewEncoder(w)}
	e.to.SetEscapeHTML(false)
	_, err := store.Gather(ctx, i.store, func(ctx context.Context, shard store.Shard) (struct{}, error) {
		part := exportPart{export: &e, inspector: i, shard: shard, page: exportFirst, made: make(map[string]madeBefore)}
		return struct{}{}, part.run(ctx, on)
	})
	slices.Sort(e.sum.Paused)
	slices.Sort(e.sum.Settings)
	if err = cmp.Or(e.failed, err); err != nil {
		err = fmt.Errorf("export: %w", err)
	}
	return e.sum, err
}

// An export is one call of Export. Its parts use it by turns.
type export struct {
	mu     sync.Mutex
	to     *json.Encoder
	failed error // of to: the parts end with it
	sum    Exported
	all    int // messages of the shards that told
}

// An exportPart exports one shard.
type exportPart struct {
	*export
	inspector *Inspector
	shard     store.Shard
	page      int
	now       time.Time             // by Redis's clock, when it read the last page
	had       int                   // messages of the shard by then
	made      map[string]madeBefore // of the schedules, by TOPIC:NAME
}

// run exports the shard, its schedules first, and notes its topics with pauses or
// settings, which are not exported. It calls on after each page.
func (e *exportPart) run(ctx context.Context, on func(done, all int)) error {
	if err := e.pushes(ctx); err != nil {
		return err
	}
	if err := e.schedules(ctx); err != nil {
		return err
	}
	for cursor := "0"; ; {
		next, err := e.step(ctx, cursor, on)
		if err != nil {
			return err
		}
		if cursor = next; cursor == "0" {
			break
		}
	}
	if err := e.groups(ctx); err != nil {
		return err
	}
	paused, err := e.shard.Paused(ctx)
	if err != nil {
		return fmt.Errorf("look for paused topics: %w", err)
	}
	settings, err := e.shard.WithSettings(ctx)
	if err != nil {
		return fmt.Errorf("look for settings of topics: %w", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sum.Paused = append(e.sum.Paused, paused...)
	e.sum.Settings = append(e.sum.Settings, settings...)
	return nil
}

// step exports a page, and returns where the next one begins.
func (e *exportPart) step(ctx context.Context, cursor string, on func(done, all int)) (next string, err error) {
	page, err := e.shard.Export(ctx, cursor, e.page)
	if err != nil {
		return "", err
	}
	e.now = page.Now
	e.leaveOut(page.Foreign)
	size := 0
	for i := range page.Messages {
		size += page.Messages[i].Size
		if err := e.add(&page.Messages[i]); err != nil {
			return "", err
		}
	}
	for _, member := range page.Alone {
		if err := e.alone(ctx, member); err != nil {
			return "", err
		}
	}
	switch {
	case size > exportLarge:
		e.page = max(e.page/2, 1)
	case size < exportLarge/4:
		e.page = min(e.page*2, exportMost)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all += page.All - e.had
	if e.had = page.All; on != nil {
		on(e.sum.Total(), e.all)
	}
	return page.Next, nil
}

// leaveOut counts records that are not exported.
func (e *export) leaveOut(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sum.LeftOut += n
}

// alone exports a message that did not fit into its page.
func (e *exportPart) alone(ctx context.Context, member string) error {
	topic, _, err := record.SplitMember(member)
	if err != nil {
		e.leaveOut(1)
		return nil
	}
	infos, err := e.inspector.inspect(ctx, topic, []string{member})
	if err != nil || len(infos) == 0 { // removed meanwhile
		return err
	}
	return e.write(infos[0])
}

// add exports a message of a page.
func (e *exportPart) add(look *store.Inspected) error {
	topic, id, err := record.SplitMember(look.Member)
	if err != nil {
		e.leaveOut(1)
		return nil
	}
	return e.write(infoOf(topic, id, look))
}

// write exports a message and counts it, but none that tells of a death: to send it is for the
// store in which that happened.
func (e *exportPart) write(i Info) error {
	if i.State == Done || strings.HasPrefix(i.Topic, record.DeadPrefix) || e.isMadeAgain(&i) { // by now
		return nil
	}
	if i.lost() {
		e.leaveOut(1)
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if i.State == 0 {
		if i.State, i.Due = Ready, e.now; i.FirstDue.After(e.now) {
			i.State, i.Due = Scheduled, i.FirstDue
		}
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
	case i.State == Ready || i.State == Blocked:
		e.sum.Ready++
	default:
		e.sum.Scheduled++
	}
	if e.failed == nil {
		e.failed = e.to.Encode(i.restorable(e.now))
	}
	return e.failed
}

// restorable returns a message as a line that restores it. A time that cannot be
// restored becomes now for a death, and the latest due time for all others: a message
// with a foreign time must not be handed out.
func (i Info) restorable(now time.Time) Line {
	line := i.Line()
	line.FirstDue, line.Died, line.Reason, line.AttemptsUsed = nil, nil, "", 0
	r := &Restore{Schedule: store.ScheduleOfKey(i.Key)}
	if line.IfBusy = ""; i.State == Scheduled && i.Attempts == 0 && i.Snoozed == 0 { // else that was judged when it was due first
		line.IfBusy = i.IfBusy
	}
	line.Restore = r
	if i.Published.UnixMilli() > 0 {
		r.Published = i.Published.UTC()
	}
	if !i.FirstDue.IsZero() && !r.Published.IsZero() {
		r.FirstDue = i.FirstDue.UTC()
	}
	if !i.Broadcast {
		r.AttemptsUsed, r.Snoozed = min(max(i.Attempts, 0), record.MostAttempts), max(i.Snoozed, 0)
		r.History = triedOf(restorableHistory(i.History))
	}
	if i.State == Dead {
		r.Died, r.Reason = timeOr(i.Died, now), short(i.Reason)
		return line
	}
	if i.Next != nil {
		next := Info{Topic: i.Topic, ID: i.ID, State: Scheduled, Due: i.Next.FirstDue, Record: *i.Next}.restorable(now)
		r.Next = &next
	}
	due := timeOr(i.Due, record.MaxDue)
	line.Due = &due
	if i.TTL > 0 && !i.Expires.IsZero() && !i.Broadcast {
		r.Expires = timeOr(i.Expires, record.MaxDue)
	}
	return line
}

// restorableHistory returns attempts without those that cannot be restored, which are
// foreign, with reasons cut to the length that can be.
func restorableHistory(history []Attempt) (all []Attempt) {
	for _, a := range history {
		if a.Ended.UnixMilli() < 1 || a.Ended.After(record.MaxDue) || a.By != "" && record.CheckWorker("by", a.By) != nil {
			continue
		}
		a.Reason = strings.ToValidUTF8(a.Reason[:min(len(a.Reason), record.MaxReason)], "")
		all = append(all, a)
	}
	return all[max(len(all)-record.MaxHistory, 0):]
}

// timeOr returns at in UTC, or another time if at is too early to be restored.
func timeOr(at, otherwise time.Time) time.Time {
	if at.UnixMilli() < 1 {
		at = otherwise
	}
	return at.UTC()
}

// short cuts a reason to the length that can be restored.
func short(reason string) string {
	return strings.ToValidUTF8(reason[:min(len(reason), maxReason)], "")
}
