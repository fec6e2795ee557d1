package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/find"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

var findActPage = page{
	path: Root + "find/act", title: "Act on all that match", nav: "find", name: "findact", holds: pageBytes,
	data: func(ctx context.Context, c *Console, v *visit) (any, error) { return c.countAll(ctx, v) },
}

// An actView is an act on all that match a question: how many it is for, and how far it is.
type actView struct {
	*visit
	Q          string
	Kind       string
	Delay, Due string // of reschedule
	Began      bool   // it acts, and does not only count
	Counted    bool   // Matched are all
	Matched    int64  // so far
	Done       int64  // so far
	Progress   progress
	Cursor     string // with which it goes on; empty: from the beginning
	More       bool   // it acts, and can go on
	Goes       bool   // it goes on by itself
}

// actOf returns an act that a form or an address asks for, which the viewer must be allowed.
func actOf(v *visit, given url.Values) (view *actView, q find.Query, act find.Act, err error) {
	view = &actView{visit: v, Q: given.Get("q"), Kind: given.Get("act"), Delay: given.Get("delay"), Due: given.Get("due"), Cursor: given.Get("cursor")}
	for name, into := range map[string]*int64{"matched": &view.Matched, "so_far": &view.Done, "looked": &view.Progress.Looked, "of": &view.Progress.Of} {
		*into, _ = strconv.ParseInt(given.Get(name), 10, 64)
	}
	if !v.Has(calls.MayAdmin) {
		return view, q, act, api.ErrForbidden
	}
	if _, known := actWords[view.Kind]; !known {
		return view, q, act, fault.New("act", "act %.100q: use requeue, cancel, reschedule or purge", view.Kind)
	}
	act.Kind = find.Kind(view.Kind)
	if act.Kind == find.Reschedule {
		var delay time.Duration
		if delay, act.Due, err = whenOf(view.Delay, view.Due); err != nil {
			return view, q, act, err
		}
		if strings.TrimSpace(view.Delay) != "" {
			act.Delay = &delay
		}
	}
	q, err = find.Parse(view.Q)
	return view, q, act, err
}

// actWords are the words for each kind of act.
var actWords = map[string]struct{ Do, Did, What string }{
	"requeue":    {"Requeue", "Requeued", "dead letters"},
	"purge":      {"Purge", "Purged", "dead letters"},
	"cancel":     {"Cancel", "Cancelled", "scheduled, ready and blocked messages"},
	"reschedule": {"Reschedule", "Rescheduled", "scheduled, ready and blocked messages"},
}

// Do, Did and What are the words for the act.
func (a *actView) Do() string   { return actWords[a.Kind].Do }
func (a *actView) Did() string  { return actWords[a.Kind].Did }
func (a *actView) What() string { return actWords[a.Kind].What }

// Grave reports whether the act cannot be undone.
func (a *actView) Grave() bool { return a.Kind == "purge" || a.Kind == "cancel" }

// Reschedules reports whether the act needs a time.
func (a *actView) Reschedules() bool { return a.Kind == "reschedule" }

// Search returns the address of the search.
func (a *actView) Search() string { return findPath(a.Q) }

// Counts returns the address that counts anew.
func (a *actView) Counts() string { return actPath(a.Q, a.Kind) }

// Next returns the address that goes on counting.
func (a *actView) Next() string {
	return a.Link("cursor", a.Cursor, "matched", strconv.FormatInt(a.Matched, 10), "stop", "")
}

// Stop returns the address of the page where it does not go on by itself.
func (a *actView) Stop() string { return a.Link("stop", "1") }

// countAll counts what an act is for, a page at a time: the address has what was counted.
func (c *Console) countAll(ctx context.Context, v *visit) (any, error) {
	view, q, act, err := actOf(v, v.r.URL.Query())
	if err != nil {
		return nil, err
	}
	done, err := c.page(ctx, v, view, q, act, true)
	if err != nil && !store.IsPartial(err) {
		return nil, err
	}
	view.Counted = done.Cursor == ""
	view.Goes = !view.Counted && v.query("stop") == ""
	return view, err
}

// page does one page of an act, or only counts it, and adds it to the view. That keeps its place where there is no later one.
func (c *Console) page(ctx context.Context, v *visit, view *actView, q find.Query, act find.Act, dryRun bool) (find.Acted, error) {
	_, end, err := c.ask(v, view.Q)
	if err != nil {
		return find.Acted{}, err
	}
	defer end()
	done, err := c.o.Finder.Act(ctx, q, act, find.Options{Cursor: view.Cursor, May: v.May()}, dryRun)
	view.Matched += int64(done.Matched)
	view.Done += int64(done.Done)
	if err == nil || store.IsPartial(err) || done.Cursor != "" {
		view.Progress, view.Cursor = progress{done.Looked, done.Of}, done.Cursor
	}
	return done, err
}

// allAct acts on all that match, a page for each form that is sent. It answers with the page
// from which it goes on, so that no address does something by itself. Once it began it does so with every error, too:
// begun anew, it would not know what it changed already.
var allAct = act{path: findActPage.path, name: "act on all that match", form: &findActPage, shows: func(ctx context.Context, c *Console, v *visit, refused error) (any, string, int, error) {
	form := v.r.PostForm
	view, q, act, err := actOf(v, form)
	began := form.Get("began") != ""
	if !began {
		view.Matched, view.Done, view.Progress, view.Cursor = 0, 0, progress{}, ""
	}
	view.Began = true
	var done find.Acted
	if err = cmp.Or(err, refused); err == nil {
		done, err = c.page(ctx, v, view, q, act, false)
	}
	invalid := errors.Is(err, notify.ErrInvalid)
	if errors.Is(err, api.ErrForbidden) || !began && (invalid || refused != nil) {
		return nil, "", 0, err
	}
	view.More = view.Cursor != "" || err != nil && !store.IsPartial(err)
	view.More = view.More && !invalid
	view.Goes = view.More && err == nil
	return view, fmt.Sprintf("%s all of %s", view.Kind, q.String()), done.Done, stopped(err)
}}

// stopped returns the error of an act as one beside what it did.
func stopped(err error) error {
	if err == nil || store.IsPartial(err) || errors.Is(err, notify.ErrInvalid) {
		return err
	}
	f := *faultOf(err)
	f.Title, f.Detail = "It stopped", f.Title+". What was done stays done. Go on below."
	return &f
}
