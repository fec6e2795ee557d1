package httpapi

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bellhopd/bellhop/daemon/httpapi/guard"
	"github.com/bellhopd/bellhop/daemon/httpapi/tokens"
)

// An operation is a call of the API: its description in the OpenAPI document, and the
// checks of a request before its handler runs.
type operation struct {
	method, path string
	id           string // names the function in generated clients
	tag          string // groups it in the document
	summary      string
	description  string
	rights       []tokens.Right // any one of them permits it; none: every token does
	and          []tokens.Right // any one of them is needed, too; none: no other is
	status       int            // of success
	also         string         // when 200 with the reply is another status of success; empty: never
	reply        any            // a value of the answer's type, in JSON; nil: no answer. With the status 204 it is that of 200 alone
	replyType    string         // content type of an answer other than JSON
	request      any            // a value of the body's type, in JSON; nil: no body
	requestType  string         // content type of a body other than JSON; */*: any
	errors       []int          // statuses beside those that every operation may answer
	lasts        bool           // long-running: cancelled when the client disconnects; all other calls run to completion
	long         bool           // its answer may be long, so few are made at a time
	keeps        bool           // takes headers Bellhop-Header-NAME, kept with a message
	raw          bool           // may answer with one message as it is
}

// A call is a request under way.
type call struct {
	w     http.ResponseWriter
	r     *http.Request
	grant *tokens.Grant
	gate  *Gate
	op    operation

	params   []param
	reserved guard.Reservation
}

// A handler answers a call: it returns the reply, or nil if it wrote the answer itself.
type handler[I any] func(ctx context.Context, c *call, in *I) (reply any, err error)

// register adds an operation to the mux and to the OpenAPI document. The fields of I
// are its parameters.
func register[I any](g *Gate, mux *http.ServeMux, doc *huma.OpenAPI, op operation, answer handler[I]) {
	params := paramsOf(reflect.TypeFor[I]())
	document(doc, op, reflect.TypeFor[I]())
	mux.HandleFunc(op.method+" "+op.path, func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		rec := &recorder{ResponseWriter: w}
		c := &call{w: rec, r: r, gate: g, op: op, params: params}
		ctx := r.Context()
		if !op.lasts {
			ctx = context.WithoutCancel(ctx)
		}
		handle := func() (any, error) {
			var in I
			err := readParams(r, params, reflect.ValueOf(&in).Elem())
			if m, publishes := any(&in).(publishing); publishes && err != nil {
				err = errors.Join(err, m.otherFaults(err))
			}
			if !op.keeps {
				err = errors.Join(err, noHeaders(r.Header))
			}
			if err != nil {
				return nil, err
			}
			return answer(ctx, c, &in)
		}
		if op.lasts {
			c.serve(op, handle)
		} else {
			inOwnGoroutine(func() { c.serve(op, handle) })
		}
		g.o.OnRequest(op.id, rec.status, time.Since(began))
	})
}

// inOwnGoroutine calls f in a goroutine of its own and waits for it. Calls to Redis and
// JSON need a deep stack, which the goroutine of a connection would keep as long as the
// connection lives: 8 KiB more for each polling client.
func inOwnGoroutine(f func()) {
	done := make(chan any, 1)
	go func() {
		defer func() { done <- recover() }()
		f()
	}()
	if fault := <-done; fault != nil {
		panic(fault) // the server recovers from it
	}
}

// serve admits a request or refuses it, and answers it.
func (c *call) serve(op operation, handle func() (any, error)) {
	if err := c.enter(op); err != nil {
		if errors.Is(err, errDraining) && c.r.Header.Get("Accept") == eventStream {
			panic(http.ErrAbortHandler) // an EventSource connects again after a broken connection, but never after an error status
		}
		c.refuse(err)
		return
	}
	defer c.releaseMemory()
	reply, err := handle()
	switch {
	case err != nil:
		c.refuse(err)
	case reply != nil:
		_ = c.answer(op.status, reply) // an error means that the client is gone
	case c.w.(*recorder).status == 0:
		c.w.WriteHeader(op.status)
	}
}

// enter admits a request: the gateway is open, and its token permits the operation.
func (c *call) enter(op operation) error {
	if c.gate.draining.Load() {
		return errDraining
	}
	// HEAD is answered like GET, but a stream has no end.
	if c.r.Method != op.method && op.replyType == eventStream {
		return c.otherMethod()
	}
	var err error
	c.grant, err = c.gate.keys.Admit(c.r)
	if err != nil {
		return err
	}
	guard.OnSlot(c.r.Context(), (*guard.Slot).Authenticate)
	if err := errors.Join(c.grant.AllowRights(op.rights), c.grant.AllowRights(op.and)); err != nil || !op.long {
		return err
	}
	return c.reserve(longAnswer)
}

// recorder records the status of an answer.
type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(p)
}

// Unwrap returns the inner writer, for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// given reports whether a query parameter is given.
func (c *call) given(name string) bool { return c.r.URL.Query().Has(name) }
