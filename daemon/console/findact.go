package console

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
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

// actOf returns an act that a form or an address asks for, as far as it is.
func actOf(v *visit, given url.Values) *actView {
	view := &actView{visit: v, Q: given.Get("q"), Kind: given.Get("act"), Delay: strings.TrimSpace(given.Get("delay")), Due: strings.TrimSpace(given.Get("due")), Cursor: given.Get("cursor")}
	for name, into := range map[string]*int64{"matched": &view.Matched, "so_far": &view.Done, "looked": &view.Progress.Looked, "of": &view.Progress.Of} {
		*into, _ = strconv.ParseInt(given.Get(name), 10, 64)
	}
	return view
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
	view := actOf(v, v.r.URL.Query())
	_, err := c.page(ctx, view, "dry_run")
	if err != nil && !store.IsPartial(err) {
		return nil, err
	}
	view.Counted = view.Cursor == ""
	view.Goes = !view.Counted && v.query("stop") == ""
	return view, err
}

// page does one page of an act, or with dry_run only counts it, adds it to the view, and returns how many messages it changed. The view keeps
// its place if that fails.
func (c *Console) page(ctx context.Context, view *actView, how string) (int, error) {
	done, err := ask[calls.Acted](ctx, c, view.visit, "act", "act", view.Kind, "q", view.Q, "cursor", view.Cursor, "delay", view.Delay, "due", view.Due, how, "true")
	if err != nil {
		return 0, err
	}
	view.Matched += int64(done.Matched)
	view.Done += int64(done.Done)
	view.Progress, view.Cursor = progress{done.Looked.Looked, done.Of}, done.Cursor
	return done.Done, done.Missing.Err()
}

// allAct acts on all that match, a page for each form that is sent. It answers with the page
// from which it goes on, so that no address does something by itself. Once it began it does so with every error, too:
// begun anew, it would not know what it changed already.
var allAct = act{path: findActPage.path, name: "act on all that match", form: &findActPage, shows: func(ctx context.Context, c *Console, v *visit, refused error) (any, int, error) {
	view := actOf(v, v.r.PostForm)
	began := v.r.PostForm.Get("began") != ""
	if !began {
		view.Matched, view.Done, view.Progress, view.Cursor = 0, 0, progress{}, ""
	}
	view.Began = true
	n, err := 0, cmp.Or(calls.Named("act").Admits(v.Client), refused)
	if err == nil {
		n, err = c.page(ctx, view, "all")
	}
	invalid := errors.Is(err, notify.ErrInvalid)
	if errors.Is(err, api.ErrForbidden) || !began && (invalid || refused != nil) {
		return nil, 0, err
	}
	view.More = view.Cursor != "" || err != nil && !store.IsPartial(err)
	view.More = view.More && !invalid
	view.Goes = view.More && err == nil
	return view, n, stopped(err)
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
