package calls

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// A Right is what a client may do.
type Right string

// The rights. admin includes all others.
const (
	MayPublish  Right = "publish"
	MayConsume  Right = "consume"
	MayListen   Right = "listen"
	MayMetrics  Right = "metrics" // of all topics
	MayArchive  Right = "archive" // all of a row but its body and its result
	MayBodies   Right = "archive-bodies"
	MayPush     Right = "push"
	MaySchedule Right = "schedule"
	MayAdmin    Right = "admin"
)

// AllRights are all of them.
var AllRights = []Right{MayPublish, MayConsume, MayListen, MayMetrics, MayArchive, MayBodies, MayPush, MaySchedule, MayAdmin}

// ListRights returns the names of rights, joined by a text.
func ListRights(rights []Right, join string) string {
	names := make([]string, len(rights))
	for i, r := range rights {
		names[i] = string(r)
	}
	return strings.Join(names, join)
}

// A Client is who asks for a call, and what it may do.
type Client struct {
	Name       string
	Rights     []Right
	Patterns   []notify.Pattern
	Everything bool      // also what patterns do not match: the topics of the system
	Searches   *Searches // of bodies, under way
}

// Anybody returns a client that may do everything.
func Anybody(name string) Client {
	return Client{Name: name, Rights: AllRights, Patterns: anyTopic(), Everything: true, Searches: new(Searches)}
}

func anyTopic() []notify.Pattern {
	p, _ := notify.ParsePattern(">")
	return []notify.Pattern{p}
}

// AllowRights returns an api.ErrForbidden if none of some rights is granted.
func (c *Client) AllowRights(any []Right) error {
	if len(any) == 0 || slices.Contains(c.Rights, MayAdmin) {
		return nil
	}
	for _, r := range any {
		if slices.Contains(c.Rights, r) {
			return nil
		}
	}
	return fmt.Errorf("%w: %s may %s; this needs %s", api.ErrForbidden, c.Name, ListRights(c.Rights, " and "), ListRights(any, " or "))
}

// Has reports whether any of some rights is granted.
func (c *Client) Has(any ...Right) bool { return c.AllowRights(any) == nil }

// May returns a function that reports whether a topic is granted; nil: all are.
func (c *Client) May() func(topic string) bool {
	if c.Everything {
		return nil
	}
	return func(topic string) bool {
		return slices.ContainsFunc(c.Patterns, func(p notify.Pattern) bool { return p.Match(topic) })
	}
}

// Covers reports whether a topic, or every topic of a pattern, is granted.
func (c *Client) Covers(topic notify.Pattern) bool {
	return c.Everything || slices.ContainsFunc(c.Patterns, func(p notify.Pattern) bool { return p.Covers(topic) })
}

// CoversAll reports whether all topics are granted; those of deaths need not be.
func (c *Client) CoversAll() bool { return c.Covers(anyTopic()[0]) }

// AllowTopic returns an api.ErrForbidden if a topic, or some topic of a pattern, is not granted.
func (c *Client) AllowTopic(text string) error {
	p, err := notify.ParsePattern(text)
	if err != nil || c.Covers(p) {
		return err
	}
	return fmt.Errorf("%w: %s may not use the topic %s", api.ErrForbidden, c.Name, text)
}

// AllowGroup returns an api.ErrForbidden if a message waits for a group of a topic that is not granted: it learns how many are in that, and takes
// its callback; or if one of a branch is in a group of such a topic, which it holds back.
func (c *Client) AllowGroup(m *notify.Message) error {
	if of, branch := record.SplitBranch(m.Topic); branch != "" && m.Group != "" {
		if err := c.AllowTopic(of); err != nil {
			return err
		}
	}
	if m.AfterGroup == "" {
		return nil
	}
	topic, _, err := record.SplitGroup(m.AfterGroup)
	return cmp.Or(err, c.AllowTopic(topic))
}

// AllowPush returns an api.ErrForbidden unless all topics of a push are granted. It names none of them: they may be those of others.
func (c *Client) AllowPush(name string, topics []string) error {
	if slices.ContainsFunc(topics, func(topic string) bool { return c.AllowTopic(topic) != nil }) {
		return fmt.Errorf("%w: %s may not use all topics of the push %s", api.ErrForbidden, c.Name, name)
	}
	return nil
}

// AllowAll returns an api.ErrForbidden if not all topics are granted.
func (c *Client) AllowAll() error { return c.AllowTopic(">") }
