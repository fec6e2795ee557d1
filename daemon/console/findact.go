package console

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify/find"
	"github.com/bellhopd/bellhop/notify/store"
)

var findActPage = page{
	path: Root + "find/act", title: "Act on all that match", nav: "find", name: "findact",
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
	Cursor     string // with which it goes on; empty: it is done
	Goes       bool   // it goes on by itself
	Refused    *fault
}

// actOf returns an act that a form or an address asks for, which the viewer must be allowed.
func actOf(v *visit, given url.Values, now time.Time) (view *actView, q find.Query, act find.Act, err error) {
	view = &actView{visit: v, Q: given.Get("q"), Kind: given.Get("act"), Delay: given.Get("delay"), Due: given.Get("due"), Cursor: given.Get("cursor")}
	view.Matched, _ = strconv.ParseInt(given.Get("matched"), 10, 64)
	view.Done, _ = strconv.ParseInt(given.Get("so_far"), 10, 64)
	if !v.May(Admin) {
		return view, q, act, errForbidden
	}
	if _, known := actWords[view.Kind]; !known {
		return view, q, act, store.Faultf("act", "act %.100q: use requeue, cancel, reschedule or purge", view.Kind)
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
	q, err = find.Parse(view.Q, now)
	return view, q, act, err
}

// actWords are the words for each kind of act.
var actWords = map[string]struct{ Do, Did, What string }{
	"requeue":    {"Requeue", "Requeued", "dead letters"},
	"purge":      {"Purge", "Purged", "dead letters"},
	"cancel":     {"Cancel", "Cancelled", "scheduled and ready messages"},
	"reschedule": {"Reschedule", "Rescheduled", "scheduled and ready messages"},
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

// Next returns the address that goes on counting.
func (a *actView) Next() string {
	return a.Link("cursor", a.Cursor, "matched", strconv.FormatInt(a.Matched, 10), "stop", "")
}

// Stop returns the address of the page where it does not go on by itself.
func (a *actView) Stop() string { return a.Link("stop", "1") }

// countAll counts what an act is for, a page at a time: the address has what was counted.
func (c *Console) countAll(ctx context.Context, v *visit) (any, error) {
	view, q, act, err := actOf(v, v.r.URL.Query(), c.now(ctx))
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

// page does one page of an act, or only counts it, and adds it to the view.
func (c *Console) page(ctx context.Context, v *visit, view *actView, q find.Query, act find.Act, dryRun bool) (find.Acted, error) {
	if q.AsksBodies() {
		_, done, err := c.ask(v, view.Q)
		if err != nil {
			return find.Acted{}, err
		}
		defer done()
	}
	done, err := c.o.Finder.Act(ctx, q, act, find.Options{Cursor: view.Cursor, May: v.may()}, dryRun)
	view.Matched += int64(done.Matched)
	view.Done += int64(done.Done)
	view.Progress, view.Cursor = progress{done.Looked, done.Of}, done.Cursor
	return done, err
}

// allAct acts on all that match, a page for each form that is sent. It answers with the page
// from which it goes on, so that no address does something by itself.
var allAct = act{path: findActPage.path, name: "act on all that match", form: &findActPage, shows: func(ctx context.Context, c *Console, v *visit) (any, string, int, error) {
	form := v.r.PostForm
	view, q, act, err := actOf(v, form, c.now(ctx))
	if err != nil {
		return nil, "", 0, err
	}
	if form.Get("began") == "" {
		view.Matched, view.Done, view.Cursor = 0, 0, ""
	}
	view.Began = true
	done, err := c.page(ctx, v, view, q, act, false)
	did := fmt.Sprintf("%s all of %s", view.Kind, q.String())
	if err != nil && (done.Cursor == "" || done.Done == 0) && !store.IsPartial(err) {
		return nil, did, done.Done, err
	}
	view.Goes = done.Cursor != "" && err == nil
	return view, did, done.Done, partly(err)
}}

// partly returns the error of an act as one beside what it did.
func partly(err error) error {
	if err == nil || store.IsPartial(err) {
		return err
	}
	return &fault{Status: http.StatusServiceUnavailable, Title: "It stopped", Detail: "What was done stays done. Go on below.", cause: err}
}
