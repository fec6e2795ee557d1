package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/httpapi/guard"
	"github.com/bellhopd/bellhop/daemon/httpapi/tokens"
)

// A call is a request under way.
type call struct {
	w     http.ResponseWriter
	r     *http.Request
	grant *tokens.Grant
	gate  *Gate
	op    calls.Call

	reserved guard.Reservation
}

// A handler answers a call: it returns the reply, or nil if it wrote the answer itself.
type handler[I any] func(ctx context.Context, c *call, in *I) (reply any, err error)

// register adds a call of HTTP alone. The fields of I are its parameters.
func register[I any](g *Gate, mux *http.ServeMux, doc *huma.OpenAPI, op calls.Call, answer handler[I]) {
	op.Input = reflect.TypeFor[I]()
	g.add(mux, doc, op, func(ctx context.Context, c *call) (any, error) {
		var in I
		err := c.readParams(reflect.ValueOf(&in).Elem())
		if m, publishes := any(&in).(publishing); publishes && err != nil {
			err = errors.Join(err, m.otherFaults(err))
		}
		if !op.Keeps {
			err = errors.Join(err, noHeaders(c.r.Header))
		}
		if err != nil {
			return nil, err
		}
		return answer(ctx, c, &in)
	})
}

// offer adds a call of the table.
func (g *Gate) offer(mux *http.ServeMux, doc *huma.OpenAPI, op calls.Call) {
	g.add(mux, doc, op, func(ctx context.Context, c *call) (any, error) {
		if op.Takes > 0 {
			_ = c.writeWithin(op.Takes + g.timing.answer) // an error means that the connection is gone
		}
		r := &calls.Request{Client: &c.grant.Client}
		return op.Do(ctx, g.o.Service, r, func(input reflect.Value) (err error) {
			if err := errors.Join(c.readParams(input), noHeaders(c.r.Header)); err != nil {
				return err
			}
			if op.Request == nil {
				return c.noBody()
			}
			read := c.body
			if op.Lists {
				read = c.readList
			}
			r.Body, err = read(calls.MaxRequest)
			return err
		})
	})
}

// add adds a call to the mux and to the OpenAPI document.
func (g *Gate) add(mux *http.ServeMux, doc *huma.OpenAPI, op calls.Call, answer func(context.Context, *call) (any, error)) {
	document(doc, op)
	mux.HandleFunc(op.Method+" "+op.Path, func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		rec := &recorder{ResponseWriter: w}
		c := &call{w: rec, r: r, gate: g, op: op}
		if op.Lasts {
			c.serve(func() (any, error) { return answer(r.Context(), c) })
		} else {
			ctx := context.WithoutCancel(r.Context())
			inOwnGoroutine(func() { c.serve(func() (any, error) { return answer(ctx, c) }) })
		}
		g.o.OnRequest(op.Name, rec.status, time.Since(began))
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
func (c *call) serve(handle func() (any, error)) {
	if err := c.enter(); err != nil {
		if errors.Is(err, errDraining) && c.r.Header.Get("Accept") == eventStream {
			panic(http.ErrAbortHandler) // an EventSource connects again after a broken connection, but never after an error status
		}
		c.refuse(err)
		return
	}
	defer c.releaseMemory()
	reply, err := handle()
	listing, lists := reply.(calls.Listing)
	switch { // an error of an answer means that the client is gone
	case err != nil:
		c.refuse(err)
	case lists:
		c.keepReserved(listing.Bytes)
		_ = c.list(listing)
	case reply != nil:
		_ = c.answer(c.op.Status, reply)
	case c.w.(*recorder).status == 0:
		c.w.WriteHeader(c.op.Status)
	}
}

// enter admits a request: the gateway is open, and its token permits the operation.
func (c *call) enter() error {
	op := c.op
	if c.gate.draining.Load() {
		return errDraining
	}
	// HEAD is answered like GET, but a stream has no end.
	if c.r.Method != op.Method && op.ReplyType == eventStream {
		return c.otherMethod()
	}
	var err error
	c.grant, err = c.gate.keys.Admit(c.r)
	if err != nil {
		return err
	}
	guard.OnSlot(c.r.Context(), (*guard.Slot).Authenticate)
	if err := op.Admits(&c.grant.Client); err != nil || !op.Long {
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

// open returns a context for a call that waits. It ends with the request, when the
// gateway closes, or when the token is revoked. It costs no goroutine.
func (c *call) open(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	closed := context.AfterFunc(c.gate.closing, func() { cancel(errDraining) })
	revoked := context.AfterFunc(c.grant.Valid, func() { cancel(tokens.ErrUnknown) })
	return ctx, func() {
		closed()
		revoked()
		cancel(nil)
	}
}

// plain returns a handler for a request that is no operation of the API.
func (g *Gate) plain(handle func(c *call) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := &call{w: &recorder{ResponseWriter: w}, r: r, gate: g}
		if err := handle(c); err != nil {
			c.refuse(err)
		}
	}
}

// otherMethod refuses a method that no call has, and names the allowed ones.
func (c *call) otherMethod() error {
	var allowed []string
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
		other := *c.r
		other.Method = method
		if _, pattern := c.gate.mux.Handler(&other); pattern != "/" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		return errNoSuchCall
	}
	c.w.Header().Set("Allow", strings.Join(allowed, ", "))
	return fmt.Errorf("%w: use %s", errMethod, strings.Join(allowed, " or "))
}
