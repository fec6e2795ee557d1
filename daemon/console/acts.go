package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"slices"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

const (
	maxBody = notify.DefaultMaxBody // bytes of the largest body that a form takes: a page is no place for larger ones
	// maxForm is the most bytes of a form. One with a body is sent as multipart/form-data, in which nothing grows but
	// ends of lines, from one byte to two.
	maxForm = 2*maxBody + 64<<10
)

// maxUnknown is the most bytes of a form of somebody who is not logged in: only the name of its page is of use.
const maxUnknown = 64 << 10

// An act changes something. Its form has the fields edition and once beside its own.
type act struct {
	path string // pattern of net/http, without a method
	name string // for the log
	// do acts, and returns what it did and on how many, for the viewer and the log.
	do func(ctx context.Context, c *Console, v *visit) (did string, n int, err error)
	// form is the page with the form, which is shown again with what was written where that
	// cannot be read; nil: the fault alone is shown.
	form *page
	// shows acts in place of do, and returns what the page form shows then, nil for the fault alone, and on how many it acted. The call that it makes
	// logs that. It does nothing if the form is refused, and says then how far the act was.
	shows func(ctx context.Context, c *Console, v *visit, refused error) (data any, n int, err error)
}

// act returns the handler of an act. It leads back to the page that the form names, which
// says what was done.
func (c *Console) act(a act) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		viewer, err := c.viewer(r)
		if err == nil && viewer == nil {
			r.Body = http.MaxBytesReader(w, r.Body, maxUnknown)
			_ = c.readForm(r) // without its page the login leads to the overview
			c.loginThen(w, r, backOf(r))
			return
		}
		v := &visit{Viewer: viewer, r: r}
		if err == nil {
			var free func()
			free, err = v.reserveForm()
			defer free()
		}
		if err == nil {
			err = c.check(v)
		}
		if viewer != nil && a.shows != nil {
			c.showAct(w, v, a, err)
			return
		}
		if err != nil {
			c.fail(w, v, "", err)
			return
		}
		did, n, err := a.do(r.Context(), c, v)
		if asked, is := errors.AsType[question](err); is {
			c.makeSure(w, v, asked)
			return
		}
		if errors.Is(err, errShown) && c.again(w, v, *a.form, nil) {
			return
		}
		c.caches.pieces.Clear() // they show what was before
		c.doctor.forget()
		c.logAct(v, a, did, n, err)
		if err == nil {
			c.setDone(w, r, did, v.made)
			lead(w, r, cmp.Or(v.instead, backOf(r)))
			return
		}
		if n == 0 {
			did = ""
			c.sendAgain(v, err)
		}
		if a.form != nil && errors.Is(err, notify.ErrInvalid) && c.again(w, v, *a.form, err) {
			return
		}
		c.fail(w, v, did, err)
	}
}

// A question is what a viewer is asked before an act changes many things for good: the error of an act that did nothing yet.
type question string

func (q question) Error() string { return string(q) }

// sure returns a question, unless the form says that it was answered.
func (v *visit) sure(format string, args ...any) error {
	if v.r.PostForm.Get("sure") != "" {
		return nil
	}
	return question(fmt.Sprintf(format, args...))
}

// A doubt is a form that was sent, and the question whether it is meant.
type doubt struct {
	Question question
	Path     string
	Fields   []named
}

// makeSure answers with a question, and with a form that sends what was sent once more.
func (c *Console) makeSure(w http.ResponseWriter, v *visit, asked question) {
	d := doubt{Question: asked, Path: address(v.r, nil)}
	for _, name := range slices.Sorted(maps.Keys(v.r.PostForm)) {
		if name == "edition" || name == "once" {
			continue
		}
		for _, value := range v.r.PostForm[name] {
			d.Fields = append(d.Fields, named{name, value})
		}
	}
	c.render(w, v.r, http.StatusOK, &frame{Title: asked.Error(), Template: "sure", Viewer: v.Viewer, Back: backOf(v.r), Data: d})
}

// logAct logs an act that did something, even where it failed then.
func (c *Console) logAct(v *visit, a act, did string, n int, err error) {
	if err == nil || n > 0 {
		c.o.Logger.Info("act of the console", "token", v.Name, "act", a.name, "what", did, "count", n)
	}
}

// showAct acts, and answers with the page of the act.
func (c *Console) showAct(w http.ResponseWriter, v *visit, a act, refused error) {
	data, n, err := a.shows(v.r.Context(), c, v, refused)
	if n > 0 {
		c.forgetAll()
		c.doctor.forget()
	}
	if data == nil {
		c.sendAgain(v, err)
		c.fail(w, v, "", err)
		return
	}
	f, status := c.frame(v, *a.form), http.StatusOK
	if f.Data = data; err != nil {
		f.Fault = c.faultFor(v.Viewer, err)
		status = f.Fault.Status
	}
	c.render(w, v.r, status, f)
}

// sendAgain lets a form be sent again that was refused for what stands in it: the browser leads back to it.
func (c *Console) sendAgain(v *visit, refused error) {
	if errors.Is(refused, notify.ErrInvalid) {
		c.sent.forget(v.r.PostForm.Get("once"))
	}
}

// oneIf counts an act on one thing.
func oneIf(err error) int {
	if err == nil || errors.Is(err, notify.ErrUnreplicated) { // that is done, too
		return 1
	}
	return 0
}

// errShown is the error of an act that did nothing yet: its form is shown again, with more.
var errShown = errors.New("the form is shown again")

// again shows a form that was refused, or that an act shows with more, and reports whether it could.
func (c *Console) again(w http.ResponseWriter, v *visit, p page, refused error) bool {
	f := c.frame(v, p)
	status := http.StatusOK
	if refused != nil {
		v.Refused = c.faultFor(v.Viewer, refused)
		status = v.Refused.Status
	}
	for _, one := range fault.All(refused) {
		v.wrong = append(v.wrong, one.Field)
	}
	var err error
	if f.Data, err = p.read(v.r.Context(), c, v); err != nil {
		return false
	}
	c.render(w, v.r, status, f)
	return true
}

// check refuses a form of another edition, and one that was sent before.
func (c *Console) check(v *visit) error {
	if err := c.readForm(v.r); err != nil {
		return err
	}
	if v.r.PostForm.Get("edition") != c.edition {
		return &pageFault{Status: http.StatusConflict, Title: "The daemon was updated", Detail: "This form is of the version before. Nothing was done: go back, load the page again, and repeat it."}
	}
	if !c.sent.first(v.r.PostForm.Get("once")) {
		return &pageFault{Status: http.StatusConflict, Title: "This form was sent before", Detail: "The answer then said what was done, and nothing was done now. Go back and load the page again."}
	}
	return nil
}

// reserveForm waits for the memory that a form may take, and returns what frees it. The error is a fault.
func (v *visit) reserveForm() (free func(), err error) {
	bytes := v.r.ContentLength
	if bytes < 0 || bytes > maxForm {
		bytes = maxForm
	}
	return v.reserve(bytes, "That form was not read", "Nothing was done: go back, and send it again.")
}

// readForm reads a form of either encoding. The error is a fault.
func (c *Console) readForm(r *http.Request) error {
	err := r.ParseForm()
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil && kind == "multipart/form-data" {
		err = r.ParseMultipartForm(maxForm)
	}
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return &pageFault{
			Status: http.StatusRequestEntityTooLarge, Title: "That form is too large",
			Detail: fmt.Sprintf("It has more than %s, and a body may have %s. Nothing was done.", sized(large.Limit), sized(int64(c.o.MaxBody))),
		}
	case err != nil:
		return &pageFault{Status: http.StatusBadRequest, Title: "That form cannot be read", Detail: err.Error() + ". Nothing was done."}
	}
	return nil
}

// backOf returns the page that a form names.
func backOf(r *http.Request) string { return nextOf(r.PostForm.Get("back")) }
