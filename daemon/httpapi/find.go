package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/httpapi/tokens"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/find"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

// registerFind registers the calls that find messages by what they hold.
func (g *Gate) registerFind(mux *http.ServeMux, doc *huma.OpenAPI) {
	register(g, mux, doc, operation{
		method: "GET", path: "/v1/find", id: "find", tag: tagOperate, lasts: true, long: true, status: http.StatusOK, reply: api.Found{},
		rights: []tokens.Right{tokens.MayPublish, tokens.MayConsume}, errors: []int{429}, summary: "Find messages by what they hold, a page at a time",
		description: "Only topics that the token permits are looked at. An answer comes when the page is full, in about 100 ms if something is found by then, and after a second in any case: go on with its cursor. Searches of bodies are logged, and a token may have two of them under way.",
	}, g.find)
	register(g, mux, doc, operation{
		method: "POST", path: "/v1/find/{act}", id: "act", tag: tagOperate, lasts: true, long: true, status: http.StatusOK, reply: api.Acted{},
		rights: []tokens.Right{tokens.MayAdmin}, errors: []int{429}, summary: "Act on all messages that a question asks for",
		description: "requeue and purge are for dead letters, cancel and reschedule for scheduled and ready messages; reschedule needs delay or due, such as delay=0s for at once. Whatever else matches is left alone, and so is what was published, or died, since the first call. A call works for about a second: go on with its cursor. Only topics that the token permits are looked at.",
	}, g.act)
}

// question is the input of a call that finds messages.
type question struct {
	Q      string `query:"q" required:"true" maxLength:"4096" example:"topic:order.* id:order-47*" doc:"terms that all must hold: topic:PATTERN, state:STATE, several with commas, id:ID with * for any text, reason~TEXT, body~TEXT, header.NAME=VALUE, due<TIME and due>TIME: a day of UTC, a time, now, or from now such as -1h or +2d. Values with spaces in double quotes, with \\\" and \\\\ in them"`
	Cursor string `query:"cursor" is:"cursor" maxLength:"4096" pattern:"^[A-Za-z0-9_-]+$" doc:"cursor of the previous answer; missing: from the beginning"`
}

type findInput struct {
	question
	Limit int `query:"limit" minimum:"1" maximum:"500" default:"100" doc:"list at most this many"`
}

// find lists messages that a question asks for.
func (g *Gate) find(ctx context.Context, c *call, in *findInput) (any, error) {
	q, done, err := c.ask(in.question)
	if err != nil {
		return nil, err
	}
	defer done()
	page, err := g.o.Finder.Find(ctx, q, find.Options{Limit: in.Limit, Cursor: in.Cursor, May: c.grant.May()})
	missing, err := api.MissingOf(err)
	if err != nil {
		return nil, err
	}
	bytes := int64(0)
	for i := range page.Messages {
		bytes += int64(len(page.Messages[i].Body) + len(page.Messages[i].Result))
	}
	c.keepReserved(bytes)
	one := func(i int) (any, []byte) { return messageOf(page.Messages[i]) }
	_ = c.list(len(page.Messages), one, api.LookedOf(page, missing)) // an error means that the client is gone
	return nil, nil
}

// ask admits a question. The caller calls done when it is answered.
func (c *call) ask(in question) (q find.Query, done func(), err error) {
	if err := c.noBody(); err != nil {
		return q, nil, err
	}
	if q, err = find.Parse(in.Q); err != nil {
		return q, nil, err
	}
	done, admitted := c.grant.Searches.Begin(c.gate.o.Logger, q, "token", c.grant.Name)
	if !admitted {
		return q, nil, errSearches
	}
	return q, done, nil
}

type actInput struct {
	Act string `path:"act" enum:"reschedule,requeue,cancel,purge" doc:"what to do with the messages"`
	question
	All    string         `query:"all" enum:"true" doc:"all messages that the question asks for; needed unless it is a dry run"`
	DryRun bool           `query:"dry_run" default:"false" doc:"true: only count what matches"`
	M      notify.Message `has:"delay,due"`
}

// act acts on all messages that a question asks for.
func (g *Gate) act(ctx context.Context, c *call, in *actInput) (any, error) {
	if in.All == "" && !in.DryRun {
		return nil, fault.New("all", "parameter all: it is missing; %s changes all that match, so give all=true, or dry_run=true to count them first", in.Act)
	}
	q, end, err := c.ask(in.question)
	if err != nil {
		return nil, err
	}
	defer end()
	act := find.Act{Kind: find.Kind(in.Act), Due: in.M.Due}
	if c.r.URL.Query().Get("delay") != "" {
		act.Delay = &in.M.Delay
	}
	done, err := g.o.Finder.Act(ctx, q, act, find.Options{Cursor: in.Cursor, May: c.grant.May()}, in.DryRun)
	if done.Done > 0 {
		g.o.Logger.Info("acted on all that match", "token", c.grant.Name, "act", in.Act, "question", q.String(), "count", done.Done)
	}
	missing, err := api.MissingOf(err)
	if err != nil && (done.Done == 0 || done.Cursor == "") { // else the next call says why
		return nil, err
	}
	return api.ActedOf(done, missing), nil
}
