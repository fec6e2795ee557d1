package calls

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

// A Call is an operation that a client may ask for.
type Call struct {
	Name        string // names it in generated clients and metrics, and its subject in NATS
	Method      string // of HTTP
	Path        string // of HTTP, with the parameters that are in it
	Tag         string // groups it in the OpenAPI document
	Summary     string
	Description string
	Rights      []Right       // any one of them permits it; none: every client may
	And         []Right       // any one of them is needed, too; none: no other is
	Status      int           // of HTTP, if it succeeds
	Reply       any           // a value of the answer's type, in JSON; nil: no answer. With the status 204 it is that of 200 alone
	Errors      []int         // statuses beside those that every call may answer
	Long        bool          // its answer may be long, so few are made at a time
	Lists       bool          // its body is a list, which becomes much more than its bytes, so few are read at a time
	Lasts       bool          // it may take long, so it ends when the client is gone or the daemon stops; all others run to completion
	Takes       time.Duration // how long it may take beside its answer; zero: not long

	NATS   Subjects
	NoNATS string // why NATS has no such call, or has it another way

	Also        string // when 200 with the reply is another status of success; empty: never
	Request     any    // a value of the body's type, in JSON; nil: no body
	RequestType string // content type of a body other than JSON; */*: any
	ReplyType   string // content type of an answer other than JSON
	Keeps       bool   // takes headers Bellhop-Header-NAME, kept with a message
	Raw         bool   // may answer with one message as it is

	Input reflect.Type // its fields are the parameters, see Param
	do    func(ctx context.Context, s *Service, r *Request) (any, error)
}

// Subjects says on which subjects NATS has a call. The right to one is given by its subject,
// so a topic stands in it, not in the request.
type Subjects int

// Which subjects a call has, of its name in lower case with dashes: of listDead list-dead.
const (
	Nowhere      Subjects = iota
	Plain                 // list-dead
	ByTopic               // list-dead.TOPIC
	ByTopicOrAll          // find.TOPIC, and find-all for all topics
)

// Subject returns the token of a call's subjects.
func (c Call) Subject() string {
	var b strings.Builder
	for _, r := range c.Name {
		if unicode.IsUpper(r) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// A Request asks for a call.
type Request struct {
	*Client
	Body []byte // of a call with a Request
	Room int64  // bytes of bodies that fill an answer; zero: as many as any
	Most int    // most elements of an answer; zero: as its parameter limit says. Set to how many were asked for, or are answered
	in   any
}

// Admits returns an api.ErrForbidden unless a client has the rights to the call.
func (c Call) Admits(client *Client) error {
	return errors.Join(client.AllowRights(c.Rights), client.AllowRights(c.And))
}

// Do makes the call with a request whose parameters fill sets in an input. The error is an api.ErrForbidden if the client has not the
// rights to the call, or may not use its topic, or some topic of its pattern.
func (c Call) Do(ctx context.Context, s *Service, r *Request, fill func(input reflect.Value) error) (any, error) {
	if err := c.enter(r, fill); err != nil {
		return nil, err
	}
	return c.do(ctx, s, r)
}

// enter reads the parameters of a request, and returns why the call refuses it; nil: it does not.
func (c Call) enter(r *Request, fill func(input reflect.Value) error) error {
	if err := c.Admits(r.Client); err != nil {
		return err
	}
	in := reflect.New(c.Input)
	if err := fill(in.Elem()); err != nil {
		return err
	}
	if topic := in.Elem().FieldByName("Topic"); topic.IsValid() && topic.String() != "" {
		if err := r.AllowTopic(topic.String()); err != nil {
			return err
		}
	}
	if limit := in.Elem().FieldByName("Limit"); limit.IsValid() {
		if r.Most > 0 {
			limit.SetInt(min(limit.Int(), int64(r.Most)))
		}
		r.Most = int(limit.Int())
	}
	r.in = in.Interface()
	return nil
}

// DoJSON makes the call with parameters in one JSON object, beside the topic of a subject,
// which is empty if the subject has none. Of a call with a Request the data are that.
func (c Call) DoJSON(ctx context.Context, s *Service, r *Request, topic string, data []byte) (any, error) {
	if c.Request != nil {
		if len(data) > MaxRequest {
			return nil, fault.Renamed("request", fmt.Errorf("%w: %d bytes; at most %d are allowed", notify.ErrTooLarge, len(data), MaxRequest))
		}
		r.Body, data = data, nil
	}
	return c.Do(ctx, s, r, func(input reflect.Value) error { return ReadJSON(c.Params(), topic, data, input) })
}

// MaxRequest is how many bytes a body in JSON may have.
const MaxRequest = 1 << 20

var table []Call

// Table returns the calls that are the same over all transports, by their names.
func Table() []Call {
	return slices.SortedFunc(slices.Values(table), func(a, b Call) int { return strings.Compare(a.Name, b.Name) })
}

// define adds a call to the table, whose input is I, and returns it.
func define[I any](c Call, do func(context.Context, *Service, *Request, *I) (any, error)) Call {
	c.Input = reflect.TypeFor[I]()
	c.do = func(ctx context.Context, s *Service, r *Request) (any, error) { return do(ctx, s, r, r.in.(*I)) }
	table = append(table, c)
	return c
}

// Named returns the call of a name in the table. It panics if there is none.
func Named(name string) Call {
	return table[slices.IndexFunc(table, func(c Call) bool { return c.Name == name })]
}

// Ask makes the call of a name, which has no body, in this process, and returns its reply. The parameters are texts by their names; an empty
// one is not given.
func Ask[R any](ctx context.Context, s *Service, client *Client, name string, params map[string]string) (reply R, err error) {
	c := Named(name)
	got, err := c.Do(ctx, s, &Request{Client: client}, func(in reflect.Value) error { return c.readTexts(params, in) })
	if got != nil {
		reply = got.(R)
	}
	return reply, err
}

// Check returns the error with which [Ask] would refuse the call before it does anything.
func Check(client *Client, name string, params map[string]string) error {
	c := Named(name)
	return c.enter(&Request{Client: client}, func(in reflect.Value) error { return c.readTexts(params, in) })
}

// readTexts reads parameters into an input. The error joins a notify.Fault for each wrong one.
func (c Call) readTexts(params map[string]string, in reflect.Value) error {
	var faults []error
	for _, p := range c.Params() {
		switch text := cmp.Or(params[p.Name], p.Fallback); {
		case text == "" && p.Required:
			faults = append(faults, fault.New(p.Name, "%s: it is empty; give one, such as %s", p.Name, p.Example))
		case text != "" && params[p.Without] != "":
			faults = append(faults, besides(p))
		case text != "":
			faults = append(faults, p.Set(in, text))
		}
	}
	return errors.Join(faults...)
}
