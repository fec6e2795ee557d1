package api

import (
	"time"

	"github.com/bellhopd/bellhop/daemon/archive"
	"github.com/bellhopd/bellhop/notify/asked"
)

// ArchiveRow is a message that ended, as the archive has it.
type ArchiveRow struct {
	Key
	State        string     `json:"state" enum:"dead,dropped,acked,removed" doc:"how it ended; removed: it was a dead letter before there was an archive, and the housekeeping removed it"`
	Ended        time.Time  `json:"ended" doc:"when, by the clock of Redis"`
	Reason       string     `json:"reason,omitempty" doc:"why it died or was dropped"`
	AttemptsUsed int        `json:"attempts_used" doc:"attempts used up, by expired leases and rejections"`
	History      []Attempt  `json:"history,omitempty" doc:"its last attempts that failed, oldest first"`
	FirstDue     *time.Time `json:"first_due,omitempty" doc:"due time of its first attempt"`
	Published    *time.Time `json:"published,omitempty"`
	Size         int        `json:"size" doc:"of its body in bytes"`
	Fault        string     `json:"fault,omitempty" doc:"why its record was unreadable, and the body is all of it; or why its row in the database is"`
	Store        string     `json:"store,omitempty" doc:"id of the store that it ended in"`
	asked.Options
	Result
	Text
}

// ArchiveRowOf returns a row in its JSON form. A body of nil is left out.
func ArchiveRowOf(r archive.Row) ArchiveRow {
	return ArchiveRow{
		Key: Key{r.Topic, r.ID}, State: r.State, Ended: r.Ended.UTC(), Reason: r.Reason,
		AttemptsUsed: r.Attempts, History: historyOf(r.History),
		FirstDue: given(r.FirstDue), Published: given(r.Published),
		Size: r.Size, Fault: r.Fault, Store: r.Store, Options: asked.Of(r.Record), Result: ResultOf(r.Result), Text: TextOf(r.Body),
	}
}

// ArchivePage is one page of a search in the archive.
type ArchivePage struct {
	Messages []ArchiveRow `json:"messages" nullable:"false" doc:"newest end first"`
	Cursor   string       `json:"cursor,omitempty" doc:"give it as cursor for the next page; missing: this is the last one"`
}

// ArchivePageOf returns a page in its JSON form.
func ArchivePageOf(p archive.Page) ArchivePage {
	page := ArchivePage{Messages: make([]ArchiveRow, len(p.Rows)), Cursor: p.Cursor}
	for i, row := range p.Rows {
		page.Messages[i] = ArchiveRowOf(row)
	}
	return page
}

// ArchiveChange is what one call changed.
type ArchiveChange struct {
	Count   int    `json:"count" doc:"messages that were published again, or removed from the archive"`
	Refused int    `json:"refused,omitempty" doc:"messages that were not published again: their ids are in use, or their records are unreadable"`
	Cursor  string `json:"cursor,omitempty" doc:"there may be more: repeat the call, with this as cursor where it has that parameter; missing: all are done"`
}

// ArchiveChangeOf returns a change in its JSON form.
func ArchiveChangeOf(c archive.Change) ArchiveChange {
	return ArchiveChange{Count: c.Done, Refused: c.Refused, Cursor: c.Cursor}
}
