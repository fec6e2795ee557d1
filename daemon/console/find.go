package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/find"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

const foundRows = 50 // on a page

var findPage = page{
	path: Root + "find", title: "Find", nav: "find", name: "find", holds: pageBytes,
	data: func(ctx context.Context, c *Console, v *visit) (any, error) { return c.find(ctx, v) },
}

// A findView is what the page of a search shows.
type findView struct {
	*visit
	Now      time.Time
	Q        string
	Asked    bool
	Examples []example
	Offers   string        // what the box completes, as console.js reads it
	States   []stateChoice // none: the question cannot be read
	Mark     *mark         // where the question stops making sense
	Rows     []messageRow
	Progress progress
	Next     string // address that goes on; empty: all was looked at
	Goes     bool   // it goes on by itself: nothing was found yet
	Export   string
	question find.Query
	total    int64 // of all that match; 0: it is not known
}

// Requeues and Moves report whether acts on dead letters, and on scheduled, ready and blocked messages, can change what is asked for.
func (f *findView) Requeues() bool { return f.Can("act") && f.question.Permits(find.Requeue) }
func (f *findView) Moves() bool    { return f.question.Permits(find.Reschedule) }

// An example is a question, and what it finds.
type example struct{ Q, What string }

// Link returns the address of the example's answer.
func (e example) Link() string { return findPath(e.Q) }

var examples = []example{
	{"topic:order.* state:dead", "dead letters of the topics of orders"},
	{"id:order-47*", "whose id begins with order-47"},
	{"state:dead reason~timeout", "that died of a timeout"},
	{"header.tenant=acme", "with this header"},
	{"topic:order.* body~4711", "with 4711 in the body"},
	{"state:scheduled due<+1h", "that fall due within the hour"},
	{"state:ready due<-5m", "that have been due for five minutes"},
}

// A mark is a question in which a character is marked.
type mark struct{ Before, At, Behind string }

// atCharacter finds in the fault of a question the first character that makes no sense.
var atCharacter = regexp.MustCompile(`^invalid q: at character (\d+) stands`)

// markOf returns a question with the character that a fault is about; nil: it is about none.
func markOf(q string, err error) *mark {
	f, is := errors.AsType[*notify.Fault](err)
	if !is {
		return nil
	}
	found := atCharacter.FindStringSubmatch(f.Error())
	if found == nil {
		return nil
	}
	n, _ := strconv.Atoi(found[1])
	runes := []rune(q)
	if n = max(0, min(n-1, len(runes))); n == len(runes) {
		return &mark{Before: legible(q), At: "(end)"}
	}
	return &mark{legible(string(runes[:n])), legible(string(runes[n])), legible(string(runes[n+1:]))}
}

// find answers a question.
func (c *Console) find(ctx context.Context, v *visit) (any, error) {
	view := &findView{visit: v, Now: c.now(ctx), Q: v.query("q"), Examples: examples, Offers: allOffers()}
	if err := calls.Named("find").Admits(v.Client); err != nil {
		return nil, err
	}
	if view.Q == "" {
		view.States, _ = c.stateChoices(ctx, v, find.Query{})
		return view, nil
	}
	q, done, err := c.service.Admit(v.Client, view.Q)
	if err != nil {
		view.Mark = markOf(view.Q, err)
		return view, err
	}
	defer done()
	view.question = q
	view.States, view.total = c.stateChoices(ctx, v, q)
	page, err := c.service.Finder.Find(ctx, q, find.Options{Limit: foundRows, Cursor: v.query("cursor"), May: v.May()})
	if err != nil && !store.IsPartial(err) {
		return view, err
	}
	view.Asked, view.Rows, view.Progress = true, rowsOf(page.Messages), progress{page.Looked, page.Of}
	view.Export = "find/export?" + url.Values{"q": {view.Q}}.Encode()
	if page.Cursor != "" {
		view.Next = view.onwards(page.Cursor)
		view.Goes = len(view.Rows) == 0 && v.query("stop") == ""
	}
	return view, err
}

// Stop returns the address of the page where it does not go on by itself.
func (f *findView) Stop() string { return f.Link("stop", "1") }

// All returns the address of the page that shows how many an act on all that match is for.
func (f *findView) All(kind string) string { return actPath(f.Q, kind) }

// foundAct acts on the ticked messages of a search.
var foundAct = act{path: Root + "acts/found", name: "act on found messages", do: func(ctx context.Context, c *Console, v *visit) (string, int, error) {
	members := v.r.PostForm["m"]
	kind, do, err := changeOf(v)
	switch {
	case err != nil:
		return "", 0, err
	case len(members) == 0:
		err = fault.New("m", "no message is ticked; tick those that are meant")
	case kind == "reschedule" && v.typed("delay") == "" && v.typed("due") == "":
		err = fault.New("due", "delay and due: none is given; give one of them, such as a delay of 0s for at once")
	case len(members) > notify.MaxPage:
		err = fault.New("m", "%d messages are ticked; tick at most %d", len(members), notify.MaxPage)
	}
	for _, member := range members { // all of them before the first is changed
		topic, id, _ := strings.Cut(member, ":")
		err = cmp.Or(err, do.check(v, topic, id))
	}
	if err == nil && do.ends && len(members) > 1 {
		err = v.sure("%s %d messages?", strings.ToUpper(kind[:1])+kind[1:], len(members))
	}
	if err != nil {
		return "", 0, err
	}
	n := 0
	for _, member := range members {
		topic, id, _ := strings.Cut(member, ":")
		_, err := do.do(ctx, c, v, topic, id)
		c.forget(topic)
		c.caches.messages.Forget(member)
		var f *pageFault
		switch err = changed(err); {
		case err == nil:
			n++
		case !errors.As(err, &f):
			n += oneIf(err)
			return fmt.Sprintf("%s: %d of %d messages, then it stopped", kind, n, len(members)), n, err
		}
	}
	did := fmt.Sprintf("%s: %d of %d messages", kind, n, len(members))
	switch n {
	case len(members):
	case 0:
		did += "; they had changed, or are in another state"
	default:
		did += "; the others had changed, or are in another state"
	}
	return did, n, nil
}}
