package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/text"
	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/terminal"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/fields"
)

// publishFlags are the flags of publish.
type publishFlags struct {
	body, file string

	fields    []*flagField
	headers   []string
	hasBody   bool
	broadcast bool     // of a broadcast
	without   []string // fields that it has not
}

func (a *app) publishCommand() *cobra.Command {
	var f publishFlags
	c := a.jsonFlag(&cobra.Command{
		Use:   "publish TOPIC",
		Short: "Publish a message, or many from a file",
		Long: `Publish a message, due at once unless --delay or --due is given. Without --body,
standard input is the body, unchanged; an empty body requires --body ''.

An id that is in use is refused, so a publish with --id may be repeated safely.
--if-exists says what happens instead if a message of that id waits or is ready:
keep leaves it, replace puts the new one in its place, debounce does that with a due
time that each publish puts off by --delay, at most --max-wait after the first one.
--then after is for an id that a worker has at hand: the new message follows. All
these may be repeated safely, too; what was done is printed.

With --file, publish the lines of a file, or of standard input for "-": each is
a JSON object with topic and body or body_base64, and optionally id, headers,
"mode":"broadcast" for a broadcast, and what the flags below set, with _ for -.
Empty lines are skipped; a refused line is reported with its number, and the others
are published all the same. Lines that bellhop export wrote are restored with their
times and used attempts, dead letters as dead, and schedules, pushes and groups behind
all messages. Repeating that is safe until a daemon or a worker has started: what is
there already, the same, is only counted.`,
		Example: `  bellhop publish order.timeout --id order-4711 --delay 30m --body '{"id":4711}'
  bellhop publish index --id user-7 --body '' --if-exists debounce --delay 5s \
    --max-wait 1m
  date | bellhop publish clock --due 2030-01-01T00:00:00Z
  echo '{"topic":"orders","delay":"30s","body":"hi"}' | bellhop publish --file -`,
		Args: takes("[TOPIC]"),
	})
	f.add(c)
	flags := c.Flags()
	flags.StringVar(&f.file, "file", "", "publish the lines of this file; - is standard input")
	return a.withStore(c, func(ctx context.Context, s *session, args []string) error {
		if err := f.check(c, args); err != nil {
			return wrong(err)
		}
		if f.file != "" {
			return a.publishFile(ctx, s, f.file)
		}
		return a.publishOne(ctx, s, args[0], &f)
	})
}

// A flagField is a field that is given as a flag, a list by several.
type flagField struct {
	fields.Field
	flag  string
	texts []string
}

// addFields gives a command a flag for each of some fields, but some.
func addFields(c *cobra.Command, all []fields.Field, but ...string) (flags []*flagField) {
	for _, field := range all {
		if slices.Contains(but, field.Name) {
			continue
		}
		f := &flagField{Field: field, flag: flagOf(field.Name)}
		about := field.Doc + "; such as " + field.Example
		if flags = append(flags, f); field.IsList() {
			c.Flags().StringArrayVar(&f.texts, f.flag, nil, about+"; may be repeated")
			continue
		}
		set := func(text string) error {
			f.texts = []string{text}
			return nil
		}
		if field.IsTruth() {
			c.Flags().BoolFunc(f.flag, field.Doc, set)
		} else {
			c.Flags().Func(f.flag, about, set)
		}
	}
	return flags
}

// checkFields rejects empty flags.
func checkFields(all []*flagField) error {
	for _, f := range all {
		if slices.Contains(f.texts, "") && f.Name != "content_type" {
			return misused(f.flag, "--%s is empty; leave it out", f.flag)
		}
	}
	return nil
}

// setFields sets the fields of a struct that are given. It returns a Fault for each that is wrong, and the names of these.
func setFields(all []*flagField, of any) (faults []error, wrong []string) {
	for _, f := range all {
		for _, text := range f.texts {
			if text == "" {
				continue
			}
			if err := f.Set(reflect.ValueOf(of).Elem(), text); err != nil {
				faults, wrong = append(faults, err), append(wrong, f.Name)
			}
		}
	}
	return faults, wrong
}

// add gives a command the flags of a message, or of a broadcast.
func (f *publishFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.body, "body", "", "the body; without it standard input is the body")
	flags.StringArrayVar(&f.headers, "header", nil, "a header, NAME=VALUE; may be repeated")
	all := slices.DeleteFunc(slices.Clone(fields.In[notify.Message]()), func(field fields.Field) bool { return f.broadcast && field.Of != "" })
	f.fields = addFields(c, all, f.without...)
}

// check requires either a topic or --file, and rejects flags that are empty or do
// not apply.
func (f *publishFlags) check(c *cobra.Command, args []string) error {
	if !c.Flags().Changed("file") {
		if len(args) == 0 {
			return misused("topic", "TOPIC is missing; name one, or give --file")
		}
		return f.checkOne(c)
	}
	if len(args) > 0 {
		return misused("topic", "unexpected argument %q: with --file each line names its topic", args[0])
	}
	names := []string{"body", "header"}
	for _, field := range f.fields {
		names = append(names, field.flag)
	}
	for _, name := range names {
		if c.Flags().Changed(name) {
			return misused(name, "unexpected flag --%s: with --file each line has its own", name)
		}
	}
	if f.file == "" {
		return misused("file", "--file is empty; name a file, or - for standard input")
	}
	return nil
}

// checkOne rejects empty flags of one message.
func (f *publishFlags) checkOne(c *cobra.Command) error {
	f.hasBody = c.Flags().Changed("body")
	return checkFields(f.fields)
}

func (a *app) publishOne(ctx context.Context, s *session, topic string, f *publishFlags) error {
	m, err := f.message(topic)
	if err != nil {
		return err
	}
	if m.Body, err = a.body(ctx, f, int(s.config.MaxBody)); err != nil {
		return err
	}
	p, err := s.pub.Publish(ctx, m)
	if err != nil {
		return err
	}
	return a.printPublication(api.PublicationOf(p), a.now(ctx, s))
}

// message returns the message that the flags describe, without its body. The error is a
// joined notify.Fault for each that is wrong.
func (f *publishFlags) message(topic string) (m notify.Message, err error) {
	m = notify.Message{Topic: topic, Broadcast: f.broadcast}
	faults, wrong := setFields(f.fields, &m)
	if m.Headers, err = parseHeaders(f.headers); err != nil {
		faults = append(faults, err)
	}
	return m, errors.Join(append(faults, m.Faults(wrong...))...)
}

// body returns the value of --body, or standard input.
func (a *app) body(ctx context.Context, f *publishFlags, most int) ([]byte, error) {
	if f.hasBody {
		return []byte(f.body), nil
	}
	if text.IsTerminal(a.in) {
		return nil, wrong(misused("body", "no body: give --body TEXT, or send the body to standard input"))
	}
	type input struct {
		body []byte
		err  error
	}
	got := make(chan input, 1)
	go func() { // a read cannot be interrupted
		body, err := io.ReadAll(io.LimitReader(a.in, int64(most)+1))
		got <- input{body, err}
	}()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case in := <-got:
		if in.err != nil {
			return nil, fmt.Errorf("read the body: %w", in.err)
		}
		if len(in.body) > most {
			return nil, fault.New("body", "body: more than %d bytes; at most %d are allowed (BELLHOP_MAX_BODY)", most, most)
		}
		if len(in.body) == 0 {
			return nil, fault.New("body", "body: standard input is empty; give --body '' to send an empty one")
		}
		return in.body, nil
	}
}

// printPublication prints what became of a message.
func (a *app) printPublication(p api.Publication, now time.Time) error {
	if a.json {
		return a.printJSON(p)
	}
	if p.Outcome == store.OutcomeDropped {
		terminal.Printf(a.out, "%s %s dropped: another of its key is under way\n", p.Topic, p.ID)
		return nil
	}
	when := " " + a.when(p.Due, now)
	if p.Left != nil && p.Due.IsZero() {
		when = afterGroup("its group", *p.Left)
	} else if p.Left != nil {
		when += ", or" + strings.TrimPrefix(afterGroup("its group", *p.Left), ",")
	}
	terminal.Printf(a.out, "%s %s %s%s%s\n", p.Topic, p.ID, p.State, when, a.outcome(p, now))
	return nil
}

// afterGroup says what a message waits for.
func afterGroup(group string, left int64) string {
	are := "are"
	if left == 1 {
		are = "is"
	}
	return fmt.Sprintf(", after %s, of which %d %s left", group, left, are)
}

// outcome describes what a publish did with the message that was there, if there was one.
func (a *app) outcome(p api.Publication, now time.Time) string {
	before := ""
	if p.PreviousDue != nil {
		before = ", due before: " + a.when(*p.PreviousDue, now)
	}
	switch p.Outcome {
	case notify.Kept:
		return ", kept as it is"
	case notify.Replaced, notify.Moved:
		return ", " + string(p.Outcome) + before
	}
	if p.State == notify.Leased {
		return ", after the one that is leased"
	}
	return ""
}
