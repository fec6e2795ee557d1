package calls

import (
	"context"
	"net/http"
	"reflect"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// Tags of the OpenAPI document, by which a reader finds a call.
const (
	TagPublish = "publish"
	TagConsume = "consume"
	TagListen  = "listen"
	TagOperate = "operate"
	TagArchive = "archive"
	TagOutbox  = "outbox"
)

// Paths of HTTP.
const (
	PathTopic   = "/v1/topics/{topic}"
	PathMessage = PathTopic + "/messages/{id}"
)

// OfTopic is the input of a call about a topic.
type OfTopic struct {
	Topic string `path:"topic" is:"topic" maxLength:"128" pattern:"^[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*(@[A-Za-z0-9_-]+)?$" example:"order.timeout" doc:"tokens of letters, digits, _ and -, joined by single dots; or TOPIC@NAME, a branch"`
}

// OfMessage is the input of a call about a message.
type OfMessage struct {
	OfTopic
	ID string `path:"id" is:"id" maxLength:"128" pattern:"^(\\.{0,2}[A-Za-z0-9_~:-]|\\.{3})[A-Za-z0-9._~:-]*$" example:"order-4711" doc:"id of the message"`
}

const existed = "With if_exists: there was a message of this id. outcome says what became of it."

// Publish and Broadcast are the calls that publish a message. Each gateway reads its body and headers in its own way, so Do cannot make them.
var (
	Publish = Call{
		Name: "publish", Method: "POST", Path: PathTopic + "/messages", Tag: TagPublish, Keeps: true, Status: http.StatusCreated, Reply: api.Publication{}, RequestType: "*/*",
		Rights: []Right{MayPublish}, Errors: []int{409, 413}, Summary: "Publish a message to one worker",
		Description: "The body is that of the message, verbatim, and may be empty. Headers Bellhop-Header-NAME are kept with the message. With an id a publish may be repeated: the second one is refused with 409, or does what if_exists says.",
		Also:        existed,
	}
	Broadcast = Call{
		Name: "broadcast", Method: "POST", Path: PathTopic + "/broadcasts", Tag: TagPublish, Keeps: true, Status: http.StatusCreated, Reply: api.Publication{}, RequestType: "*/*",
		Rights: []Right{MayPublish}, Errors: []int{409, 413}, Summary: "Broadcast a message to everyone who listens", Also: existed,
	}
)

// Inspect is the call that inspects a message. Each gateway waits in its own way, so Do
// cannot make it.
var Inspect = Call{
	Name: "inspect", Method: "GET", Path: PathMessage, Tag: TagPublish, Status: http.StatusOK, Reply: api.Message{}, NATS: ByTopic,
	Rights: []Right{MayPublish, MayConsume}, Errors: []int{404, 410}, Summary: "Inspect a message, and wait for its end",
	Description: "With wait the answer comes when the message is dead, or done and kept; when the wait is over it is answered as it is. A message that ended without being kept is answered with 410, and one that is unknown at first with 404 at once.",
	Input:       reflect.TypeFor[InspectInput](),
}

// InspectInput is the input of Inspect.
type InspectInput struct {
	OfMessage
	Wait time.Duration `query:"wait" shortest:"0s" longest:"5m" default:"0s" example:"30s" doc:"how long to wait until the message is dead or done; at most 5m"`
}

type rescheduleInput struct {
	OfMessage
	M notify.Message `has:"delay,due,zone"`
}

var _ = define(Call{
	Name: "reschedule", Method: "PATCH", Path: PathMessage, Tag: TagPublish, Status: http.StatusOK, Reply: api.Publication{}, NATS: ByTopic,
	Rights: []Right{MayPublish}, Errors: []int{404, 409}, Summary: "Give a message another due time",
	Description: "With neither a delay nor a due time the message is due at once.",
}, func(ctx context.Context, s *Service, r *Request, in *rescheduleInput) (any, error) {
	due, err := calendar.Local(in.M.Due, in.M.Zone)
	if err != nil {
		return nil, err
	}
	var p notify.Publication
	if due.IsZero() {
		p, err = s.Publisher.RescheduleIn(ctx, in.Topic, in.ID, in.M.Delay)
	} else {
		p, err = s.Publisher.RescheduleAt(ctx, in.Topic, in.ID, due)
	}
	return reply(api.PublicationOf(p), err)
})

// Cancelled says that a message is cancelled, or is to be, and what its state was.
type Cancelled struct {
	Cancelled bool         `json:"cancelled" doc:"true; false where stopping is true"`
	Was       notify.State `json:"was" enum:"scheduled,ready,blocked,leased,dead,done" doc:"its state before: done if it had ended and only its id was taken; with next=true leased, as a publish answers it"`
	Stopping  bool         `json:"stopping,omitempty" doc:"true: a worker has it, and was told to stop; it is cancelled, with what follows it, when that settles it in any way but an acknowledgement, and when the lease ends, which is not extended any more"`
}

type cancelInput struct {
	OfMessage
	Next bool `query:"next" default:"false" doc:"true: cancel the message that follows the one of this id, and leave that; 404 if none does"`
	Stop bool `query:"stop" default:"false" doc:"true: cancel a leased message, too, which is refused otherwise: its worker is told to stop, and hears of that with its next extension at the latest, which is answered with 409 and the type urn:bellhop:stop. A message that is acknowledged all the same stays so"`
}

var _ = define(Call{
	Name: "cancel", Method: "DELETE", Path: PathMessage, Tag: TagPublish, Status: http.StatusOK, Reply: Cancelled{}, NATS: ByTopic,
	Rights: []Right{MayPublish}, Errors: []int{404, 409}, Summary: "Cancel a message, with what follows it",
}, func(ctx context.Context, s *Service, r *Request, in *cancelInput) (any, error) {
	switch {
	case in.Next && in.Stop:
		return nil, fault.New("stop", "stop and next: both are given, and what follows is not worked on yet; give one of them")
	case in.Next:
		return reply(Cancelled{Cancelled: true, Was: notify.Leased}, s.Publisher.CancelNext(ctx, in.Topic, in.ID))
	}
	was, err := s.Publisher.Cancel(ctx, in.Topic, in.ID, store.CancelOptions{Stop: in.Stop})
	stopping := in.Stop && was == notify.Leased
	return reply(Cancelled{Cancelled: !stopping, Was: was, Stopping: stopping}, err)
})

type listInput struct {
	OfTopic
	State string `query:"state" enum:"scheduled,ready,blocked,leased,dead,done,broadcasts" default:"scheduled" doc:"state of the messages; done lists those that are kept with their results, broadcasts lists scheduled broadcasts"`
	paged
}

// paged are the parameters of a call that lists a page of messages.
type paged struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"100" doc:"list at most this many"`
	Cursor string `query:"cursor" is:"cursor" maxLength:"4096" pattern:"^[A-Za-z0-9_-]+$" doc:"cursor of the previous page; missing: from the beginning"`
}

var _ = define(Call{
	Name: "list", Method: "GET", Path: PathTopic + "/messages", Tag: TagPublish, Status: http.StatusOK, Reply: api.Page{}, NATS: ByTopic, Long: true,
	Rights: []Right{MayPublish, MayConsume}, Summary: "List messages, a page at a time, by time",
}, func(ctx context.Context, s *Service, r *Request, in *listInput) (any, error) {
	if in.State == "broadcasts" {
		return page(s.Inspector.Broadcasts(ctx, in.Topic, in.Limit, in.Cursor))
	}
	state, err := record.ParseState(in.State)
	if err != nil {
		return nil, err
	}
	return page(s.Inspector.List(ctx, in.Topic, state, in.Limit, in.Cursor))
})

// page returns a page of messages as a listing.
func page(p notify.Page, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return messages(p.Messages, listEnd{p.Cursor}), nil
}

// reply returns a reply, or nil with an error.
func reply[T any](r T, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return r, nil
}
