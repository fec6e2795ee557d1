package calls

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/push"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/fields"
	"github.com/bellhopd/bellhop/notify/store/strictjson"
)

// PushRequest is what a client says to add a push, or to replace one: the fields of a store.Push.
type PushRequest struct{}

// decodePush reads a PushRequest from JSON. The error joins a notify.Fault for each thing that is wrong.
func decodePush(name string, data []byte) (store.Push, error) {
	r := form[store.Push]{of: store.Push{Name: name}}
	if err := strictjson.Members(data, func(m strictjson.Member) { r.read("push", m) }); err != nil {
		return store.Push{}, fault.New("push", "push: %w; write one JSON object whose fields are %s", err, strings.Join(fields.Names[store.Push](), ", "))
	}
	return r.of, errors.Join(r.faults...)
}

const pathPush = "/v1/push/{name}"

// ofPush is the input of a call about a push.
type ofPush struct {
	Name string `path:"name" is:"listener" maxLength:"128" pattern:"^[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*$" example:"crm" doc:"of the push"`
}

// find returns a push, all of whose topics the client may use.
func (in *ofPush) find(ctx context.Context, s *Service, r *Request) (store.Push, error) {
	p, err := s.Store.Home().Push(ctx, in.Name)
	if err != nil {
		return store.Push{}, err
	}
	return p, r.AllowPush(p.Name, p.Topics)
}

// mostOfClient is how many pushes have topics of one client that may not use all topics, so that others have places, too.
const mostOfClient = 100

// fits returns a Fault if the push of a name is new and the client has too many.
func (s *Service) fits(ctx context.Context, r *Client, name string) error {
	if r.CoversAll() {
		return nil
	}
	all, err := s.Store.Home().Pushes(ctx)
	if err != nil {
		return err
	}
	n := 0
	for _, p := range all {
		if p.Name == name {
			return nil
		}
		if r.AllowPush(p.Name, p.Topics) == nil {
			n++
		}
	}
	if n >= mostOfClient {
		return fault.New("name", "name: %d pushes have topics of this token, and no more are possible; give one of them more topics", n)
	}
	return nil
}

// pushOf returns a push in its JSON form, with what this daemon found of it.
func (s *Service) pushOf(p store.Push) api.Push {
	shown := api.PushOf(p)
	if s.Pusher != nil {
		shown.Unheard = s.Pusher.Unheard(&p)
	}
	return shown
}

// pushing returns the pusher of the daemon. The error is an api.ErrPushOff.
func (s *Service) pushing() (*push.Pusher, error) {
	if s.Pusher == nil {
		return nil, api.ErrPushOff
	}
	return s.Pusher, nil
}

var _ = define(Call{
	Name: "listPushes", Method: "GET", Path: "/v1/push", Tag: TagOperate, Status: http.StatusOK, Reply: api.Pushes{}, NATS: Plain,
	Rights: []Right{MayPush}, Summary: "List the pushes",
	Description: "A token gets those of which it permits all topics. Secrets are never shown.",
}, func(ctx context.Context, s *Service, r *Request, _ *nothing) (any, error) {
	all, err := s.Store.Home().Pushes(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.Store.Home().NoteUnsent(ctx, all); err != nil {
		return nil, err
	}
	list := api.Pushes{Pushes: []api.Push{}}
	for _, p := range all {
		if r.AllowPush(p.Name, p.Topics) == nil {
			list.Pushes = append(list.Pushes, s.pushOf(p))
		}
	}
	return list, nil
})

var _ = define(Call{
	Name: "showPush", Method: "GET", Path: pathPush, Tag: TagOperate, Status: http.StatusOK, Reply: api.Push{}, NATS: Plain,
	Rights: []Right{MayPush}, Errors: []int{404}, Summary: "Show a push, what it has in flight, and whether its endpoint fails",
}, func(ctx context.Context, s *Service, r *Request, in *ofPush) (any, error) {
	p, err := in.find(ctx, s, r)
	if err != nil {
		return nil, err
	}
	one := []store.Push{p}
	if err := s.Store.Home().NoteUnsent(ctx, one); err != nil {
		return nil, err
	}
	shown := s.pushOf(one[0])
	if shown.Leased, err = store.PushLeased(ctx, s.Store, &p); store.IsPartial(err) {
		err = nil
	}
	return reply(shown, err)
})

var _ = define(Call{
	Name: "putPush", Method: "PUT", Path: pathPush, Tag: TagOperate, Status: http.StatusOK, Reply: api.Push{},
	NoNATS:  "its secrets would be read by who may subscribe there",
	Request: PushRequest{}, Rights: []Right{MayPush}, Errors: []int{404, 413}, Summary: "Add a push, or replace one: send the messages of topics to a URL or to NATS",
	Description: "To a URL each message is a POST with its body, signed as Standard Webhooks says, and acknowledged by an answer 2xx. 429 and 503 with Retry-After put it off, and close the endpoint for so long; 410 pauses the push; all else is a failed attempt. An endpoint that failed five times in a row is asked by one request at a time, while its messages are ready and use up no attempts. To NATS each is a request, answered as a claimed message; while nobody listens messages stay ready. The first message of a topic that is new to a pattern is up to a second late. A push that is paused stays so. A token that does not permit all topics has at most 100.",
}, func(ctx context.Context, s *Service, r *Request, in *ofPush) (any, error) {
	p, err := decodePush(in.Name, r.Body)
	if err != nil {
		return nil, err
	}
	return reply(s.PutPush(ctx, r.Client, p, nil))
})

// PutPush adds a push for a client, or replaces the one of its name. Amend gets the push and the one before it, nil where there is none: it may
// change the first, and refuse that. Errors: that of amend; an api.ErrForbidden; and those of [store.Shard.ChangePush].
func (s *Service) PutPush(ctx context.Context, client *Client, p store.Push, amend func(put, before *store.Push) error) (api.Push, error) {
	if err := s.fits(ctx, client, p.Name); err != nil {
		return api.Push{}, err
	}
	var put *store.Push
	err := s.Store.Home().ChangePush(ctx, p.Name, func(before *store.Push) (*store.Push, error) {
		var err error
		put, err = s.judge(client, p, before, amend)
		return put, err
	})
	if err != nil {
		return api.Push{}, err
	}
	one := []store.Push{*put}
	err = s.Store.Home().NoteUnsent(ctx, one)
	return api.PushOf(one[0]), err
}

// TryPush sends a test to where a push would lead that [Service.PutPush] would put, and changes nothing. The errors are those of that.
func (s *Service) TryPush(ctx context.Context, client *Client, p store.Push, amend func(put, before *store.Push) error) (api.PushTest, error) {
	var before *store.Push
	if one, err := s.Store.Home().Push(ctx, p.Name); err == nil {
		before = &one
	} else if !errors.Is(err, store.ErrNoPush) {
		return api.PushTest{}, err
	}
	put, err := s.judge(client, p, before, amend)
	if err != nil {
		return api.PushTest{}, err
	}
	return s.Pusher.Test(ctx, *put), nil
}

// judge returns a push as a client may put it in place of the one before.
func (s *Service) judge(client *Client, p store.Push, before *store.Push, amend func(put, before *store.Push) error) (*store.Push, error) {
	if before != nil {
		if err := client.AllowPush(before.Name, before.Topics); err != nil {
			return nil, err
		}
	}
	pusher, err := s.pushing()
	if err != nil {
		return nil, err
	}
	put := p.Replacing(before)
	if amend != nil {
		if err := amend(put, before); err != nil {
			return nil, err
		}
	}
	if err := cmp.Or(put.Check(), pusher.Check(put)); err != nil {
		return nil, err
	}
	for _, topic := range put.Topics {
		if err := client.AllowTopic(topic); err != nil {
			return nil, err
		}
	}
	return put, nil
}

var _ = define(Call{
	Name: "deletePush", Method: "DELETE", Path: pathPush, Tag: TagOperate, Status: http.StatusNoContent, NATS: Plain,
	Rights: []Right{MayPush}, Errors: []int{404}, Summary: "Remove a push; messages stay, broadcasts not yet sent are dropped",
}, func(ctx context.Context, s *Service, r *Request, in *ofPush) (any, error) {
	if _, err := in.find(ctx, s, r); err != nil {
		return nil, err
	}
	return nil, s.Store.Home().RemovePush(ctx, in.Name)
})

var _ = define(Call{
	Name: "pausePush", Method: "POST", Path: pathPush + "/pause", Tag: TagOperate, Status: http.StatusNoContent, NATS: Plain,
	Rights: []Right{MayPush}, Errors: []int{404}, Summary: "Pause a push: messages of its topics wait",
}, func(ctx context.Context, s *Service, r *Request, in *ofPush) (any, error) {
	if _, err := in.find(ctx, s, r); err != nil {
		return nil, err
	}
	return nil, s.Store.Home().PausePush(ctx, in.Name, "by "+r.Name)
})

var _ = define(Call{
	Name: "resumePush", Method: "POST", Path: pathPush + "/resume", Tag: TagOperate, Status: http.StatusNoContent, NATS: Plain,
	Rights: []Right{MayPush}, Errors: []int{404}, Summary: "Resume a push",
}, func(ctx context.Context, s *Service, r *Request, in *ofPush) (any, error) {
	if _, err := in.find(ctx, s, r); err != nil {
		return nil, err
	}
	return nil, s.Store.Home().PausePush(ctx, in.Name, "")
})

var _ = define(Call{
	Name: "testPush", Method: "POST", Path: pathPush + "/test", Tag: TagOperate, Status: http.StatusOK, Reply: api.PushTest{}, NATS: Plain, Lasts: true, Takes: store.DefaultPushTimeout + time.Second,
	Rights: []Right{MayPush}, Errors: []int{404}, Summary: "Send a test to where a push leads, as a message",
	Description: "It has the first topic of the push, with the word test in place of each wildcard, the body {\"test\":true}, and an id that begins with test~. It is given up after 10 seconds.",
}, func(ctx context.Context, s *Service, r *Request, in *ofPush) (any, error) {
	p, err := in.find(ctx, s, r)
	if err != nil {
		return nil, err
	}
	pusher, err := s.pushing()
	if err != nil {
		return nil, err
	}
	return pusher.Test(ctx, p), nil
})
