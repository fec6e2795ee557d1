package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/text"
	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/natsgate"
	"github.com/bellhopd/bellhop/daemon/push"
	"github.com/bellhopd/bellhop/daemon/terminal"
	"github.com/bellhopd/bellhop/notify/regular"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/fields"
)

func (a *app) pushCommand() *cobra.Command {
	return a.group(&cobra.Command{
		Use:   "push",
		Short: "Send the messages of topics to a URL or to NATS, from the daemons",
		Long: `Send the messages of topics to a URL. The daemons that have BELLHOP_PUSH_ALLOW work
for a push as workers do: each message is a POST with its body, signed as Standard
Webhooks says (https://www.standardwebhooks.com). An answer 2xx acknowledges it; 429
and 503 with Retry-After put it off, and close the endpoint for so long; 410 pauses
the push; all else is a failed attempt. An endpoint that failed five times in a row is asked by one request at a
time, while its messages are ready and use up no attempts.

Or send them to a subject of NATS, from the daemons that have BELLHOP_NATS_URL, as
requests that a client answers with +ACK, -NAK, +WPI or +TERM. While nobody listens
messages are ready, and use up no attempts.

A topic may be a pattern, such as order.* or order.>, as long as it can match no topic
of another push. The first message of a topic that is new is up to a second late.

With --broadcasts the daemons listen to a topic or a pattern under one name, and
send each broadcast to the URL.`,
		Example: `  (umask 077; echo whsec_$(head -c 32 /dev/urandom | base64) > x.key)
  bellhop push put crm --topic paid --url https://x.example --secret-file x.key
  bellhop push put mail --topic mail --to nats:work.mail
  bellhop push test crm
  bellhop push pause crm`,
	}, "put, list, show, test, pause, resume or delete",
		a.pushPutCommand(), a.pushListCommand(), a.pushShowCommand(), a.pushTestCommand(),
		a.pushChangeCommand("pause", "Pause a push: messages of its topics wait", "paused"),
		a.pushChangeCommand("resume", "Resume a push", "resumed"),
		a.pushChangeCommand("delete", "Remove a push; messages stay, broadcasts not yet sent are dropped", "deleted"),
	)
}

func (a *app) pushPutCommand() *cobra.Command {
	var topics, files []string
	c := a.jsonFlag(&cobra.Command{
		Use:   "put NAME",
		Short: "Add a push, or replace one",
		Long: `Add a push, or replace the one of that name, which stays paused if it is. Without
--secret-file it keeps its secrets. With two secrets each request has two
signatures, while receivers change from one to the other.

A push of broadcasts sends those from its put on. With another pattern it goes on
where it stood; what that does not match, and was still to be sent, is dropped.`,
		Example: `  bellhop push put crm --topic paid --url https://x.example --secret-file x.key
  bellhop push put crm --topic paid,sent --url https://x.example --in-flight 8
  bellhop push put jobs --topic 'mail,job.*' --to 'nats:jobs.>'
  bellhop push put news --broadcasts --topic 'prices.*' \
    --url https://x.example --secret-file x.key`,
		Args: takes("NAME"),

		ValidArgsFunction: a.first(a.pushesLike),
	})
	c.Flags().StringSliceVar(&topics, "topic", nil, "`TOPIC`s or patterns, up to 32, of which none can match one of another push")
	c.Flags().StringArrayVar(&files, "secret-file", nil, "`FILE` with whsec_ and the base64 of 24 to 64 random bytes; may be given twice")
	asked := addFields(c, fields.In[store.Push](), "topics", "secrets")
	return a.withStore(c, func(ctx context.Context, s *session, args []string) error {
		p := store.Push{Name: args[0], Topics: topics}
		for _, file := range files {
			text, err := regular.Read(file)
			if err != nil {
				return fault.New("secret_file", "secret file: %w", err)
			}
			p.Secrets = append(p.Secrets, strings.TrimSpace(string(text)))
		}
		faults, _ := setFields(asked, &p)
		if err := errors.Join(faults...); err != nil {
			return err
		}
		if err := s.config.Nats(s.log).CheckSubject(p.Subject(">")); p.IsNATS() && err != nil {
			return err
		}
		var put *store.Push
		err := s.store.Home().ChangePush(ctx, p.Name, func(before *store.Push) (*store.Push, error) {
			put = p.Replacing(before)
			return put, nil
		})
		if err != nil {
			return err
		}
		shown, err := ask[api.Push](ctx, s, "showPush", map[string]string{"name": p.Name})
		if err != nil {
			return err
		}
		shown.Dropped = put.Dropped
		if a.json {
			return a.printJSON(shown)
		}
		return a.printPush(ctx, s, shown)
	})
}

func (a *app) pushListCommand() *cobra.Command {
	return callCommand(a, "listPushes", &cobra.Command{
		Use:     "list",
		Short:   "List the pushes",
		Long:    `List the pushes, the topics and the endpoint of each, and whether it is paused or fails.`,
		Example: "  bellhop push list\n  bellhop push list --json | jq '.pushes[] | select(.failing) | .name'",
	}, func(ctx context.Context, s *session, _ []string, list api.Pushes) error {
		if len(list.Pushes) == 0 {
			fmt.Fprintln(a.out, "no push")
			return nil
		}
		rows := [][]string{{"NAME", "TOPICS", "TO", "STATE"}}
		now := a.now(ctx, s)
		for _, p := range list.Pushes {
			rows = append(rows, []string{p.Name, strings.Join(p.Topics, ","), pushTo(p), pushState(p, now)})
		}
		a.printRows(rows, 1, 2, 3)
		return nil
	})
}

// pushes returns what a push sends.
func pushes(p api.Push) string {
	if p.Broadcasts {
		return "broadcasts"
	}
	return "topics"
}

// pushTo returns where a push leads.
func pushTo(p api.Push) string { return cmp.Or(p.To, p.URL) }

// unsent is the state of a push that no daemon sends.
const unsent = "no daemon sends it"

// pushState says what a push does.
func pushState(p api.Push, now time.Time) string {
	switch {
	case p.Paused != "":
		return "paused, " + p.Paused
	case p.Failing != nil:
		return "fails since " + text.Relative(p.Failing.Since, now)
	case p.Closed != nil:
		return "closed until " + text.Relative(p.Closed.Until, now)
	case p.Unsent:
		return unsent
	case len(p.Stored) > 0:
		return "nobody listens"
	}
	return "works"
}

func (a *app) pushShowCommand() *cobra.Command {
	return callCommand(a, "showPush", &cobra.Command{
		Use:   "show NAME",
		Short: "Show a push, what it has in flight, and whether its endpoint fails",
		Long: `Show a push: how many messages of its topics are leased, whether it is paused, and
why; and since when its endpoint fails, what it answered last, and when it is asked
next. Several daemons ask in their turn: that is when the one that asked last does.
Of one to NATS it names a stream that stores what is sent and answers first.`,
		Example: "  bellhop push show crm\n  bellhop push show crm --json | jq .leased",

		ValidArgsFunction: a.first(a.pushesLike),
	}, func(ctx context.Context, s *session, _ []string, p api.Push) error { return a.printPush(ctx, s, p) })
}

// printPush prints a push.
func (a *app) printPush(ctx context.Context, s *session, p api.Push) error {
	now := a.now(ctx, s)
	rows := [][]string{
		{"name", p.Name},
		{pushes(p), strings.Join(p.Topics, ", ")},
		{"to", pushTo(p)},
		{"secrets", fmt.Sprint(p.Secrets)},
		{"in flight", inFlight(p)},
		{"timeout", fault.Short(time.Duration(p.TimeoutMs) * time.Millisecond)},
		{"state", pushState(p, now)},
	}
	if pushState(p, now) == unsent {
		rows = append(rows, []string{"remedy", "run a daemon with " + sentBy(p)})
	}
	if f := p.Failing; f != nil {
		rows = append(rows, []string{"answer", f.Answer})
		if p.Paused == "" {
			rows = append(rows, []string{"next try", nextTry(f.Next, now)})
		}
	}
	if c := p.Closed; c != nil {
		rows = append(rows, []string{"answer", c.Answer})
	}
	for subject, stream := range p.Stored {
		rows = append(rows, []string{"stream", stream + " stores each try to " + subject + ": take the subject from it, or have a client listen"})
	}
	if len(p.Dropped) > 0 {
		rows = append(rows, []string{"dropped", "what was still to be sent of " + strings.Join(p.Dropped, ", ")})
	}
	a.printRows(rows)
	return nil
}

// sentBy names the setting without which a daemon does not send a push.
func sentBy(p api.Push) string {
	if p.To != "" {
		return "BELLHOP_NATS_URL"
	}
	return "BELLHOP_PUSH_ALLOW=public, or the net of the URL"
}

// inFlight says how many messages of a push are leased, if that is known, and of how many at the most.
func inFlight(p api.Push) string {
	most := fmt.Sprintf("at most %d a topic and daemon", p.InFlight)
	if p.Broadcasts {
		most = fmt.Sprintf("at most %d a daemon", p.InFlight)
	}
	if p.Leased == nil {
		return most
	}
	return fmt.Sprintf("%d, %s", *p.Leased, most)
}

// nextTry says when an endpoint that fails is asked again.
func nextTry(at, now time.Time) string {
	if !at.After(now) {
		return "with the next message"
	}
	return text.Relative(at, now)
}

func (a *app) pushTestCommand() *cobra.Command {
	c := a.jsonFlag(&cobra.Command{
		Use:   "test NAME",
		Short: "Send a test to where a push leads from this machine",
		Long: `Send a test to where a push leads, from this machine, as a message: its body is
{"test":true}, its id begins with test~, and its topic is the first one of the push,
with the word test in place of each wildcard. BELLHOP_PUSH_ALLOW says, as for a
daemon, to which URLs it may go; where that is not set, to public addresses.
BELLHOP_NATS_URL names the NATS.`,
		Example: `  bellhop push test crm`,
		Args:    takes("NAME"),

		ValidArgsFunction: a.first(a.pushesLike),
	})
	return a.withStore(c, func(ctx context.Context, s *session, args []string) error {
		p, err := s.store.Home().Push(ctx, args[0])
		if err != nil {
			return err
		}
		o := push.Options{Allow: cmp.Or(s.config.PushAllow, "public"), Version: thisBuild().Version, Logger: s.log}
		if p.IsNATS() && s.config.NatsURL != "" {
			gate, err := natsgate.New(s.store, s.config.Nats(s.log))
			if err != nil {
				return err
			}
			hangUp, err := gate.Dial(ctx)
			if err != nil {
				return err
			}
			defer hangUp()
			o.NATS = gate
		}
		pusher, err := push.New(s.store, o)
		if err != nil {
			return err
		}
		got := pusher.Test(ctx, p)
		went := "ok"
		if !got.OK {
			went = "failed"
		}
		if a.json {
			err = a.printJSON(got)
		} else {
			terminal.Printf(a.out, "%s after %d ms: %s\n", went, got.TookMs, got.Answer)
		}
		if !got.OK {
			err = errors.Join(err, errReported)
		}
		return err
	})
}

// pushChangeCommand returns a command that changes a push.
func (a *app) pushChangeCommand(name, short, done string) *cobra.Command {
	return callCommand(a, name+"Push", &cobra.Command{
		Use:     name + " NAME",
		Short:   short,
		Long:    short + ".",
		Example: "  bellhop push " + name + " crm",

		ValidArgsFunction: a.first(a.pushesLike),
	}, func(_ context.Context, _ *session, args []string, _ any) error {
		terminal.Printf(a.out, "%s %s\n", done, args[0])
		return nil
	})
}
