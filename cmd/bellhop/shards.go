package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/cmd/bellhop/internal/text"
	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/terminal"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
)

func (a *app) shardsCommand() *cobra.Command {
	c := a.jsonFlag(&cobra.Command{
		Use:   "shards",
		Short: "Show where each shard is, who carries it, and what it holds",
		Long: `Show the shards of the store: the hash tag of each, in a Redis Cluster its slot, the
server that holds it, its carrier with the number of the election, how many messages
and scheduled broadcasts it keeps, how many were ever published, and how late the
next message is that should have been made ready.

Below is where the root is, which says how many shards there are. Home is shard 0:
it holds what a store has once, such as the registry of named listeners.

A shard that is away has a row that says so, and the exit code is 1.

bellhop topics --shard TOPIC shows which shard a topic is in.`,
		Example: `  bellhop shards
  bellhop shards --json | jq '.shards | group_by(.server) | map(length)'`,
		Args: takes(),
	})
	return a.withStore(c, func(ctx context.Context, s *session, _ []string) error {
		shown, err := lookAtShards(ctx, s)
		if err != nil {
			return err
		}
		if a.json {
			err = a.printJSON(shown)
		} else {
			for _, line := range shown.lines(text.Columns(a.out)) {
				fmt.Fprintln(a.out, line)
			}
		}
		return cmp.Or(err, shown.missing())
	})
}

// A shardRow is a shard as it is shown, and printed as JSON.
type shardRow struct {
	Shard     int    `json:"shard"`
	Tag       string `json:"tag"`
	Slot      *int   `json:"slot,omitempty"` // nil: it is not in a Cluster
	Server    string `json:"server"`
	Carrier   string `json:"carrier"` // empty: none is elected
	Epoch     int64  `json:"epoch"`
	Kept      int64  `json:"kept"`
	Published int64  `json:"published"`
	LateMs    int64  `json:"late_ms"`
	Error     string `json:"error,omitempty"` // the shard is away

	err error
}

// shownShards are the shards of a store, and its root.
type shownShards struct {
	Shards []shardRow `json:"shards"`
	Root   shownRoot  `json:"root"`
}

// A shownRoot is where the root is.
type shownRoot struct {
	Key    string `json:"key"`
	Server string `json:"server"`
	Layout string `json:"layout,omitempty"` // as Redis has it; empty: missing
	Error  string `json:"error,omitempty"`  // the root is away
}

// lookAtShards looks at all shards. The error is that of the connection, if none answered.
func lookAtShards(ctx context.Context, s *session) (shown shownShards, err error) {
	shown.Shards, err = store.Gather(ctx, s.store, func(ctx context.Context, shard store.Shard) (shardRow, error) {
		return lookAtShard(ctx, s.store.InCluster(), shard), nil
	})
	if err != nil {
		return shown, err
	}
	if slices.IndexFunc(shown.Shards, func(r shardRow) bool { return r.err == nil }) < 0 {
		return shown, shown.Shards[0].err
	}
	root, err := s.store.Root(ctx)
	shown.Root = shownRoot{Key: root.Key, Server: root.Server, Layout: root.Format}
	if err != nil {
		shown.Root.Error = err.Error()
	}
	return shown, nil
}

// lookAtShard looks at one shard.
func lookAtShard(ctx context.Context, inCluster bool, shard store.Shard) (row shardRow) {
	row.Shard = shard.Number()
	site, err := shard.Site(ctx)
	row.Tag, row.Server = site.Tag, site.Server
	if inCluster {
		row.Slot = &site.Slot
	}
	var sum store.Survey
	var status carrier.Status
	if err == nil {
		sum, err = shard.Survey(ctx, 1)
	}
	if err == nil {
		status, err = carrier.Look(ctx, shard)
	}
	if err != nil {
		row.err, row.Error = err, err.Error()
		return row
	}
	row.Carrier, row.Epoch = status.Name, status.Epoch
	row.Kept, row.Published = sum.Messages, sum.Published+sum.Sent
	if late := sum.Now.Sub(status.Next); !status.Next.IsZero() && late > 0 {
		row.LateMs = api.Ms(late)
	}
	return row
}

// missing returns the error for the shards that are away; nil if none is.
func (t shownShards) missing() error {
	missing := &store.MissingError{}
	for _, row := range t.Shards {
		if row.err != nil {
			missing.Shards, missing.Err = append(missing.Shards, row.Shard), cmp.Or(missing.Err, row.err)
		}
	}
	if missing.Err == nil {
		return nil
	}
	return missing
}

// lines returns the table of shards for a terminal of some width, 0 for none, and what is said below it.
func (t shownShards) lines(width int) []string {
	const server, carrier = 3, 4 // their columns
	rows := [][]string{{"SHARD", "TAG", "SLOT", "SERVER", "CARRIER", "EPOCH", "KEPT", "PUBLISHED", "LATE"}}
	for _, row := range t.Shards {
		rows = append(rows, row.cells())
	}
	return append(append(text.LayOut(rows, width, server, carrier), ""), text.Wrap(terminal.Escape(t.sum()), width)...)
}

// cells returns the cells of a row.
func (r shardRow) cells() []string {
	slot, who, epoch, kept, published, late := "-", "none", "-", "-", "-", "-"
	if r.Slot != nil {
		slot = strconv.Itoa(*r.Slot)
	}
	switch {
	case r.err != nil:
		who = "away: " + r.Error
	default:
		kept, published = strconv.FormatInt(r.Kept, 10), strconv.FormatInt(r.Published, 10)
		if r.Carrier != "" {
			who, epoch = r.Carrier, strconv.FormatInt(r.Epoch, 10)
		}
		if r.LateMs > 0 {
			late = text.Rough(time.Duration(r.LateMs) * time.Millisecond)
		}
	}
	return []string{strconv.Itoa(r.Shard), r.Tag, slot, r.Server, who, epoch, kept, published, late}
}

// sum describes how the shards are spread, what they hold in all, and where the root is.
func (t shownShards) sum() string {
	on := make(map[string]int)
	kept := int64(0)
	for _, row := range t.Shards {
		on[row.Server]++
		kept += row.Kept
	}
	root := fmt.Sprintf("the root, %s on %s, says %s", t.Root.Key, t.Root.Server, cmp.Or(t.Root.Layout, "nothing: it is lost"))
	if t.Root.Error != "" {
		root = "the root is away: " + t.Root.Error
	}
	return fmt.Sprintf("%s on %s, home is shard 0; %s kept; %s", text.Plural(len(t.Shards), "shard"), text.Plural(len(on), "server"), text.Plural(kept, "message"), root)
}

// A topicShard is where a topic is, and the channels that tell programs of any language of it.
type topicShard struct {
	Topic     string         `json:"topic"`
	Shard     int            `json:"shard"`
	Shards    int            `json:"shards"`
	Tag       string         `json:"tag"`
	Slot      *int           `json:"slot,omitempty"` // nil: it is not in a Cluster
	Server    string         `json:"server"`
	Subscribe string         `json:"subscribe"` // the command
	Channels  []topicChannel `json:"channels"`
}

// A topicChannel is a channel, and what its payload is.
type topicChannel struct {
	Channel string `json:"channel"`
	Payload string `json:"payload"`
}

// printTopicShard prints where a topic is.
func (a *app) printTopicShard(ctx context.Context, s *session, topic string) error {
	if err := record.CheckTopic(topic); err != nil {
		return err
	}
	shards, err := s.store.Shards(ctx)
	if err != nil {
		return err
	}
	shard := s.store.Of(topic)
	site, err := shard.Site(ctx)
	if err != nil {
		return err
	}
	t := topicShard{Topic: topic, Shard: shard.Number(), Shards: len(shards), Tag: site.Tag, Server: site.Server, Subscribe: "SUBSCRIBE"}
	if len(shards) > 1 {
		t.Subscribe = "SSUBSCRIBE"
	}
	if s.store.InCluster() {
		t.Slot = &site.Slot
	}
	for _, c := range s.store.PublicChannels(topic) {
		t.Channels = append(t.Channels, topicChannel(c))
	}
	if a.json {
		return a.printJSON(t)
	}
	for _, line := range t.lines() {
		fmt.Fprintln(a.out, line)
	}
	return nil
}

// lines describes where the topic is.
func (t topicShard) lines() []string {
	slot := ""
	if t.Slot != nil {
		slot = fmt.Sprintf(", slot %d", *t.Slot)
	}
	lines := []string{
		fmt.Sprintf("%s is in shard %d of %d, tag %s%s, on %s", t.Topic, t.Shard, t.Shards, t.Tag, slot, t.Server), "",
		"Channels, for " + t.Subscribe + ":",
	}
	for _, c := range t.Channels {
		lines = append(lines, "", "  "+c.Channel)
		for _, line := range text.Wrap(c.Payload, helpWidth-4) {
			lines = append(lines, "    "+line)
		}
	}
	if t.Subscribe == "SSUBSCRIBE" {
		lines = append(lines, "", strings.Join(text.Wrap("In a Redis Cluster subscribe at the master of the slot.", helpWidth), "\n"))
	}
	return lines
}
