package httpapi

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// An operation is a call of the API: how it is told in the OpenAPI document, and
// what is asked of a request before its handler runs.
type operation struct {
	method, path string
	id           string // for programs: generated clients name a function so
	tag          string // under which it is found in the document
	summary      string
	description  string
	rights       []right // any one of them will do; none: every token
	status       int     // of success
	reply        any     // a value of the type that it answers in JSON; nil: none
	replyType    string  // content type of an answer that is no JSON
	request      any     // a value of the type that the body has, in JSON; nil: none
	requestType  string  // content type of a body that is no JSON; */*: any
	errors       []int   // beside those that every operation may have
	lasts        bool    // it may last, so it ends when the client goes away; others are carried out, and answered if its way back stands
	long         bool    // its answer may be long, so that not many of them are made at a time
	keeps        bool    // headers Bellhop-Header-NAME, with a message
	raw          bool    // it may answer one message as it is
}

// A call is a request under way.
type call struct {
	w     http.ResponseWriter
	r     *http.Request
	grant *grant
	gate  *Gate
	op    operation

	params   []param
	reserved reservation
}

// A handler answers a call, by the reply that it returns or, if that is nil, by itself.
type handler[I any] func(ctx context.Context, c *call, in *I) (reply any, err error)

// register adds an operation to the mux and to the OpenAPI document. The input's
// fields are its parameters.
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

// inOwnGoroutine calls f in a goroutine of its own. A call to Redis, or JSON, takes a deep
// stack, and the goroutine of a connection would keep it for as long as the
// connection lives: 8 KiB more for each client that polls.
func inOwnGoroutine(f func()) {
	done := make(chan any, 1)
	go func() {
		defer func() { done <- recover() }()
		f()
	}()
	if fault := <-done; fault != nil {
		panic(fault) // which the server recovers from
	}
}

// serve lets a request in or refuses it, and answers it.
func (c *call) serve(op operation, handle func() (any, error)) {
	if err := c.enter(op); err != nil {
		if errors.Is(err, errDraining) && c.r.Header.Get("Accept") == eventStream {
			panic(http.ErrAbortHandler) // an EventSource comes back after a broken connection, and never after a status
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
		_ = c.answer(op.status, reply) // who is gone needs no answer
	case c.w.(*recorder).status == 0:
		c.w.WriteHeader(op.status)
	}
}

// enter asks whether the gate is open, and who calls.
func (c *call) enter(op operation) error {
	if c.gate.draining.Load() {
		return errDraining
	}
	// HEAD is answered as GET is, but a stream has no end.
	if c.r.Method != op.method && op.replyType == eventStream {
		return c.otherMethod()
	}
	var err error
	c.grant, err = c.gate.keys.admit(c.r)
	if err != nil {
		return err
	}
	onSlot(c.r.Context(), (*slot).authenticate)
	if err := c.grant.allowRights(op.rights); err != nil || !op.long {
		return err
	}
	return c.reserve(longAnswer)
}

// recorder keeps the status of an answer in mind.
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

// Unwrap is how http.ResponseController finds the writer within.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// given reports whether a query parameter is given.
func (c *call) given(name string) bool { return c.r.URL.Query().Has(name) }
