package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/daemon/archive"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/fields"
)

// archiveFlags are the flags that select rows of the archive.
type archiveFlags struct {
	topics, headers         []string
	id, state, reason, body string
	from, to                string
}

// archiveStates are the states of rows of the archive.
var archiveStates = []string{"dead", "dropped", "acked", "removed"}

// selecting gives a command the flags.
func (a *app) selecting(c *cobra.Command, f *archiveFlags) {
	flags := c.Flags()
	flags.StringArrayVar(&f.topics, "topic", nil, "of this topic, or of those that match this pattern; may be repeated")
	flags.StringVar(&f.id, "id", "", "of this id")
	flags.StringVar(&f.state, "state", "", "that are dead, dropped, acked, or removed by housekeeping")
	_ = c.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(archiveStates, cobra.ShellCompDirectiveNoFileComp)) // fails for no flag
	_ = c.RegisterFlagCompletionFunc("topic", a.found(a.topicsLike))
	flags.StringVar(&f.reason, "reason", "", "whose reason contains this")
	flags.StringArrayVar(&f.headers, "header", nil, "with this header, NAME=VALUE; may be repeated")
	flags.StringVar(&f.body, "body", "", "whose body contains this")
	flags.StringVar(&f.from, "from", "", "that ended then or later: a time of RFC 3339, or how long ago, such as 24h")
	flags.StringVar(&f.to, "to", "", "that ended before")
}

// query returns what the flags select. The error is a joined notify.Fault for each that is
// wrong.
func (f *archiveFlags) query(now askTime) (q archive.Query, err error) {
	var faults []error
	note := func(err error) { faults = append(faults, err) }
	for _, text := range f.topics {
		p, err := notify.ParsePattern(text)
		note(err)
		q.Topics = append(q.Topics, p)
	}
	q.ID, q.State, q.Reason, q.Body = f.id, f.state, f.reason, f.body
	q.Headers, err = parseHeaders(f.headers)
	note(err)
	q.From, err = ago("from", f.from, now)
	note(err)
	q.To, err = ago("to", f.to, now)
	note(err)
	if err := errors.Join(faults...); err != nil {
		return q, err
	}
	return q, q.Check()
}

// selects reports whether any flag is given.
func (f *archiveFlags) selects() bool {
	return len(f.topics)+len(f.headers) > 0 || f.id+f.state+f.reason+f.body+f.from+f.to != ""
}

// askTime asks for the time by Redis's clock, by which the times of the archive are.
type askTime func() (time.Time, error)

// ago reads a time of RFC 3339, or how long before now it was; zero if it is empty. Only
// for the latter it asks for the time. The error is a notify.Fault, or why that is unknown.
func ago(field, text string, now askTime) (time.Time, error) {
	moment, err := fields.ParseMoment(field, text)
	if err != nil {
		return time.Time{}, err
	}
	at, err := moment.Time(now)
	if err != nil {
		err = fmt.Errorf("%s %s: it counts back from the time of Redis, which is unknown: %w; write a time such as 2030-01-02T15:04:05Z", field, text, err)
	}
	return at, err
}
