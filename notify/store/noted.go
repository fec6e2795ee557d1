package store

import (
	"strconv"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify/store/record"
)

// Noted is what is kept beside the records of few messages. Redis holds it as
// NAME=NUMBER of each number, and the progress of a lease, a space before each; a newline and the record of the
// successor, if there is one.
type Noted struct {
	Snoozed int            // how often it was snoozed
	Moved   int64          // when it was rescheduled last, in Unix ms, if it had used up attempts then; 0: never. No export has that
	Stop    time.Time      // when it was asked to be cancelled once its lease ends; zero: it was not. No export has that
	Awaited bool           // its end is, or was, awaited; no export has that
	told    string         // of the progress of a lease, see progressIn; no export has that
	Next    *record.Record // the successor: it follows when this one ended, and its FirstDue is its due time; nil: none
}

// String returns what is noted of a message as Redis holds it. unique is how long the
// id stays taken after its end. The error is that of encoding JSON.
func (n Noted) String(unique time.Duration) (string, error) {
	var b strings.Builder
	if n.Snoozed > 0 {
		b.WriteString(" snoozed=" + strconv.Itoa(n.Snoozed))
	}
	if unique > 0 {
		b.WriteString(" unique=" + strconv.FormatInt(unique.Milliseconds(), 10))
	}
	if n.Next != nil {
		tail, err := n.Next.EncodeTail()
		if err != nil {
			return "", err
		}
		b.WriteByte('\n')
		if n.Next.IsMarked() {
			b.WriteByte('+')
		}
		b.WriteString(record.EncodeTimes(n.Next.Published, n.Next.FirstDue) + tail)
	}
	return b.String(), nil
}

// notedIn reads what Redis holds. What is foreign counts as missing; of an unreadable
// successor all is the body.
func notedIn(text string) (n Noted) {
	line, next, followed := strings.Cut(text, "\n")
	for _, one := range strings.Fields(line) {
		if number, ok := strings.CutPrefix(one, "snoozed="); ok {
			n.Snoozed, _ = strconv.Atoi(number)
		}
		if number, ok := strings.CutPrefix(one, "moved="); ok {
			n.Moved, _ = strconv.ParseInt(number, 10, 64)
		}
		if number, ok := strings.CutPrefix(one, "stop="); ok {
			n.Stop = record.TimeOf(number)
		}
		if told, ok := strings.CutPrefix(one, "progress="); ok {
			n.told = told
		}
		n.Awaited = n.Awaited || strings.HasPrefix(one, "await=")
	}
	if followed {
		record, err := record.Decode(next)
		if err != nil {
			record.Body = []byte(next)
		}
		n.Next = &record
	}
	return n
}
