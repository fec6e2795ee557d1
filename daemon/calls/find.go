package calls

import (
	"context"
	"net/http"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify/find"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

// question is the input of a call that finds messages.
type question struct {
	Q      string `query:"q" required:"true" maxLength:"4096" example:"topic:order.* id:order-47*" doc:"terms that all must hold: topic:PATTERN, state:STATE, several with commas, id:ID with * for any text, key:KEY, reason~TEXT, body~TEXT, header.NAME=VALUE, due<TIME and due>TIME: a day of UTC, a time, now, or from now such as -1h or +2d. Values with spaces in double quotes, with \\\" and \\\\ in them"`
	Cursor string `query:"cursor" is:"cursor" maxLength:"4096" pattern:"^[A-Za-z0-9_-]+$" doc:"cursor of the previous answer; missing: from the beginning"`
}

// Admit admits a question of a client. The caller calls done when it is answered. The error is a notify.Fault, or an api.ErrSearches.
func (s *Service) Admit(c *Client, question string) (q find.Query, done func(), err error) {
	if q, err = find.Parse(question); err != nil {
		return q, nil, err
	}
	done, admitted := c.Searches.Begin(s.Logger, q, "token", c.Name)
	if !admitted {
		return q, nil, api.ErrSearches
	}
	return q, done, nil
}

type findInput struct {
	question
	Limit int `query:"limit" minimum:"1" maximum:"500" default:"100" doc:"list at most this many"`
}

var _ = define(Call{
	Name: "find", Method: "GET", Path: "/v1/find", Tag: TagOperate, Status: http.StatusOK, Reply: Found{}, NATS: ByTopicOrAll, Lasts: true, Long: true,
	Rights: []Right{MayPublish, MayConsume}, Errors: []int{429}, Summary: "Find messages by what they hold, a page at a time",
	Description: "Only topics that the token permits are looked at. An answer comes when the page is full, and after a second in any case: go on with its cursor. Searches of bodies are logged, and a token may have two of them under way.",
}, func(ctx context.Context, s *Service, r *Request, in *findInput) (any, error) {
	q, done, err := s.Admit(r.Client, in.Q)
	if err != nil {
		return nil, err
	}
	defer done()
	page, err := s.Finder.Find(ctx, q, find.Options{Limit: in.Limit, Size: r.Room, Cursor: in.Cursor, May: r.May()})
	missing, err := api.MissingOf(err)
	if err != nil {
		return nil, err
	}
	return messages(page.Messages, Looked{Looked: page.Looked, Of: page.Of, Cursor: page.Cursor, Missing: missing}), nil
})

type actInput struct {
	Act string `path:"act" enum:"reschedule,requeue,cancel,purge" example:"reschedule" doc:"what to do with the messages"`
	question
	All    bool           `query:"all" example:"true" doc:"true: all messages that the question asks for; needed unless it is a dry run"`
	Stop   bool           `query:"stop" default:"false" doc:"true: of cancel, leased messages, too: their workers are told to stop, as by DELETE of one message"`
	DryRun bool           `query:"dry_run" default:"false" doc:"true: only count what matches"`
	Delay  *time.Duration `query:"delay" shortest:"0s" example:"90s" doc:"of reschedule: how long until they are due"`
	Due    time.Time      `query:"due" without:"delay" example:"2030-01-02T03:04:05Z" doc:"of reschedule: when they are due"`
}

var _ = define(Call{
	Name: "act", Method: "POST", Path: "/v1/find/{act}", Tag: TagOperate, Status: http.StatusOK, Reply: Acted{}, NATS: ByTopicOrAll, Lasts: true, Long: true,
	Rights: []Right{MayAdmin}, Errors: []int{429}, Summary: "Act on all messages that a question asks for",
	Description: "requeue and purge are for dead letters, cancel and reschedule for scheduled, ready and blocked messages, cancel with stop=true for leased ones, too; reschedule needs delay or due, such as delay=0s for at once. Whatever else matches is left alone, and so is what was published, or of dead letters what died, since the first call. A call works for about a second: go on with its cursor. Only topics that the token permits are looked at.",
}, func(ctx context.Context, s *Service, r *Request, in *actInput) (any, error) {
	if !in.All && !in.DryRun {
		return nil, fault.New("all", "all: it is missing; %s changes all that match, so give all=true, or dry_run=true to count them first", in.Act)
	}
	q, end, err := s.Admit(r.Client, in.Q)
	if err != nil {
		return nil, err
	}
	defer end()
	what := find.Act{Kind: find.Kind(in.Act), Stop: in.Stop, Delay: in.Delay, Due: in.Due}
	done, err := s.Finder.Act(ctx, q, what, find.Options{Cursor: in.Cursor, May: r.May()}, in.DryRun)
	if done.Done > 0 {
		s.Logger.Info("acted on all that match", "token", r.Name, "act", in.Act, "question", q.String(), "count", done.Done)
	}
	missing, err := api.MissingOf(err)
	if err != nil && (done.Done == 0 || done.Cursor == "") { // else the next call says why
		return nil, err
	}
	return Acted{Matched: done.Matched, Done: done.Done, Looked: Looked{Looked: done.Looked, Of: done.Of, Cursor: done.Cursor, Missing: missing}}, nil
})

// Looked is how far a search is.
type Looked struct {
	Looked int64  `json:"looked" doc:"how many messages it looked at so far, those of the calls before included; for a whole id, in how many topics it looked for that" example:"212000"`
	Of     int64  `json:"of" doc:"how many there are to look at, as far as they are counted: of very many topics that takes several answers" example:"1000000"`
	Cursor string `json:"cursor,omitempty" doc:"give it as cursor, with the same question, to go on; missing: this was all"`
	api.Missing
}

// Found is a page of messages that a question asks for.
type Found struct {
	Messages []api.Message `json:"messages" nullable:"false" doc:"may be few, or none, on a page that is not the last: see cursor"`
	Looked
}

// Acted is what an act on all that a question asks for did by one call.
type Acted struct {
	Matched int `json:"matched" doc:"messages that the question asks for, of this call"`
	Done    int `json:"done" doc:"those that were changed, of this call; the others had changed meanwhile, or it is a dry run"`
	Looked
}
