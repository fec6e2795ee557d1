package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/fields"
)

// putPushPage is the form that adds a push, or changes one.
var putPushPage = page{
	path: Root + "put/push", title: "Put a push", nav: "pushes", name: "putpush",
	data: func(ctx context.Context, c *Console, v *visit) (any, error) { return c.pushPut(ctx, v) },
}

// A putPushView is what the form of a push shows: what was typed, at first what the push has.
type putPushView struct {
	*visit
	Fields inputs
}

// pushPut returns what the form of a push shows.
func (c *Console) pushPut(ctx context.Context, v *visit) (any, error) {
	if err := v.check("listPushes"); err != nil {
		return nil, err
	}
	if v.r.Method == http.MethodGet {
		if err := c.fillPush(ctx, v); err != nil {
			return nil, err
		}
	}
	return &putPushView{visit: v, Fields: inputs{Label: "Fields", All: v.inputsOf(fields.In[store.Push]())}}, nil
}

// fillPush fills the form with what the address names: a push that is there, or the name of a new one.
func (c *Console) fillPush(ctx context.Context, v *visit) error {
	name := v.query("name")
	v.r.PostForm = url.Values{"name": {name}}
	if name == "" {
		return nil
	}
	all, err := c.store.Home().Pushes(ctx)
	if err != nil {
		return err
	}
	p, err := pushed(v, all, name)
	switch {
	case errors.Is(err, store.ErrNoPush):
		return nil
	case err != nil:
		return err
	}
	form := seenOf(p)
	form.Set("seen", form.Encode())
	form.Set("name", name)
	v.r.PostForm = form
	return nil
}

// seenOf returns what the form of a push shows of it: all but its secrets, that in its URL among them.
func seenOf(p *store.Push) url.Values {
	shown := *p
	shown.URL, shown.Secrets = api.ShownURL(p.URL), nil
	seen := make(url.Values)
	for _, f := range fields.In[store.Push]() {
		seen.Set(f.Name, typedOf(reflect.ValueOf(shown).FieldByIndex(f.Index)))
	}
	return seen
}

// Is reports whether the form changes a push that is there.
func (p *putPushView) Is() bool { return p.Written("seen") != "" }

// amend has a push that was typed keep what its form does not show. The error is a Fault if the push before it is not that which the form showed:
// the form gets what that has now.
func (v *visit) amend(put, before *store.Push) error {
	seen := v.Written("seen")
	switch {
	case before == nil && seen == "":
		return nil
	case before == nil:
		v.r.PostForm.Del("seen")
		return fault.New("push", "push %s: it was deleted meanwhile; send the form again to add it", put.Name)
	case seen == "":
		return fault.New("name", "name %s: there is a push of this name; change that one on its page, or give another name", put.Name)
	}
	if put.URL == api.ShownURL(before.URL) {
		put.URL = before.URL
	}
	if now := seenOf(before).Encode(); now != seen {
		v.r.PostForm.Set("seen", now)
		return fault.New("push", "push %s: it was changed meanwhile, as its page shows; send the form again to have it as you wrote it", put.Name)
	}
	return nil
}

// putPushAct puts a push, or sends a test to where it would lead: the form has a button named do for each.
var putPushAct = act{path: putPushPage.path, name: "put a push", form: &putPushPage, do: func(ctx context.Context, c *Console, v *visit) (string, int, error) {
	if err := v.check("listPushes"); err != nil {
		return "", 0, err
	}
	p := store.Push{Name: v.typed("name")}
	if err := errors.Join(v.read(fields.In[store.Push](), reflect.ValueOf(&p).Elem()), v.check("putPush", "name", p.Name)); err != nil {
		return "", 0, err
	}
	if v.Written("do") == "test" {
		test, err := c.service.TryPush(ctx, v.Client, p, v.amend)
		if err != nil {
			return "", 0, err
		}
		v.Test = &test
		return "", 0, errShown
	}
	put, err := c.service.PutPush(ctx, v.Client, p, v.amend)
	if oneIf(err) == 1 {
		c.caches.pushes.Forget()
		v.instead = pushPath(p.Name)
	}
	did := "Added"
	if v.Written("seen") != "" {
		did = "Changed"
	}
	return fmt.Sprintf("%s the push %s, which sends to %s", did, p.Name, pushRow{put}.Target()), oneIf(err), err
}}

// Tested says what the endpoint of the form answered to a test; empty: there was none.
func (p *putPushView) Tested() string {
	if p.Test == nil {
		return ""
	}
	took := short(time.Duration(p.Test.TookMs) * time.Millisecond)
	if !p.Test.OK {
		return fmt.Sprintf("The test failed after %s: %s", took, p.Test.Answer)
	}
	return fmt.Sprintf("The test took %s: %s", took, p.Test.Answer)
}
