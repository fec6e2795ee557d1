package console

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// removePage asks whether to remove a named listener: its place cannot be had back.
var removePage = page{
	path: Root + "broadcasts/remove", title: "Remove a listener", nav: "broadcasts", name: "remove",
	data: func(ctx context.Context, c *Console, v *visit) (any, error) {
		l, there, err := c.removable(ctx, v, v.query("name"))
		switch {
		case err != nil:
			return nil, err
		case !there:
			return nil, &pageFault{Status: http.StatusNotFound, Title: "There is no such listener", Detail: "It was removed meanwhile, or nobody listened under this name."}
		}
		return l, nil
	},
}

// removable returns a named listener that the viewer may remove, and whether it is there.
func (c *Console) removable(ctx context.Context, v *visit, name string) (l notify.ListenerInfo, there bool, err error) {
	if err := record.CheckListener(name); err != nil {
		return l, false, err
	}
	all, err := c.inspector.Listeners(ctx)
	if err != nil && !store.IsPartial(err) {
		return l, false, err
	}
	at := slices.IndexFunc(all, func(l notify.ListenerInfo) bool { return l.Name == name })
	switch {
	case !v.Has(calls.MayAdmin), at >= 0 && !v.SeesPattern(all[at].Pattern), at < 0 && !v.CoversAll():
		return l, false, api.ErrForbidden
	case at < 0:
		return l, false, nil
	}
	return all[at], true, nil
}

// forgetAct removes a named listener.
var forgetAct = act{path: Root + "acts/listeners", name: "remove a listener", do: func(ctx context.Context, c *Console, v *visit) (string, int, error) {
	name := v.r.PostForm.Get("remove")
	if _, _, err := c.removable(ctx, v, name); err != nil {
		return "", 0, err
	}
	err := c.inspector.RemoveListener(ctx, name)
	c.caches.listeners.Forget()
	if errors.Is(err, notify.ErrNoListener) {
		err = &pageFault{Status: 409, Title: "There is no such listener", Detail: name + " was removed meanwhile. Nothing was done."}
	}
	return "Removed the listener " + name, oneIf(err), err
}}
