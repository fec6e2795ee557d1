package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/httpapi/guard"
	"github.com/bellhopd/bellhop/daemon/httpapi/tokens"
)

// Errors of a request that do not concern messages.
var (
	errDraining   = errors.New("the daemon is stopping; send the request again, to another daemon if there is one")
	errMethod     = errors.New("the method is not allowed here")
	errNoSuchCall = errors.New("there is no such call; GET /v1/openapi.json lists all")
	errOrigin     = errors.New("web pages of this origin may not call; the operator names allowed origins in BELLHOP_CORS_ORIGINS")
	errHost       = errors.New("the Host is not an address, localhost or the name of the machine, and no token guards this; the operator adds other names with BELLHOP_HOSTS")
	errStreams    = errors.New("the token has its limit of streams open")
	errHungUp     = errors.New("the client ended its side of the connection before the answer; keep it open until then, and send the request again")
	errNotReady   = errors.New("redis and its pub/sub do not answer")
	errBodyCut    = errors.New("the body ended before its announced length, or is malformed")
	errBodySlow   = errors.New("the body did not come in time")
)

// problems are the problems that these errors are answered with.
var problems = []struct {
	err         error
	name, title string
	status      int
}{
	{errDraining, "unavailable", "the daemon is stopping", http.StatusServiceUnavailable},
	{errHungUp, "unavailable", "the client ended its side of the connection", http.StatusServiceUnavailable},
	{errNotReady, "unavailable", "not ready", http.StatusServiceUnavailable},
	{errMethod, "method", "method not allowed", http.StatusMethodNotAllowed},
	{errNoSuchCall, "no-such-call", "no such call", http.StatusNotFound},
	{tokens.ErrMissing, "unauthorized", "no token", http.StatusUnauthorized},
	{tokens.ErrUnknown, "unauthorized", "unknown token", http.StatusUnauthorized},
	{errOrigin, "forbidden", "page of another origin", http.StatusForbidden},
	{guard.ErrBusy, "busy", "too many large requests", http.StatusServiceUnavailable},
	{errStreams, "busy", "too many streams", http.StatusTooManyRequests},
	{errHost, "forbidden", "foreign host name", http.StatusForbidden},
	{errBodyCut, "body", "body incomplete", http.StatusBadRequest},
	{errBodySlow, "body", "body too slow", http.StatusRequestTimeout},
}

// problemOf returns the problem that an error is answered with.
func problemOf(err error) api.Problem {
	for _, p := range problems {
		if errors.Is(err, p.err) {
			return api.NewProblem(p.name, p.title, p.status, err)
		}
	}
	return api.ProblemOf(err)
}

// retryAfter is how long, in seconds, a client should wait after a 503.
const retryAfter = "1"

// statusGone is counted for a request whose client went away while it waited: the
// daemon did not fail. nginx uses the same number.
const statusGone = 499

// Content types of answers beside that of JSON.
const (
	problemType = "application/problem+json"
	ndjson      = "application/x-ndjson"
	eventStream = "text/event-stream"
)

// refuse answers with the problem that an error is.
func (c *call) refuse(err error) {
	rec := c.w.(*recorder)
	if rec.status != 0 { // a stream broke: it just ends
		return
	}
	hungUp := errors.Is(err, context.Canceled) && c.r.Context().Err() != nil
	if hungUp {
		err = fmt.Errorf("%w: %w", errHungUp, err)
	}
	p := problemOf(err)
	for i := range p.Errors {
		p.Errors[i].In = c.place(p.Errors[i].Name)
	}
	h := c.w.Header()
	switch p.Status {
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		h.Set("Retry-After", retryAfter)
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="bellhop"`)
		c.gate.logins.Refuse(c.gate.o.Logger, c.r.RemoteAddr, err)
	case http.StatusBadRequest, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge:
		h.Set("Connection", "close") // the rest of the body is not read
	}
	if errors.Is(err, errDraining) {
		h.Set("Connection", "close")
	}
	level := slog.LevelDebug
	if p.Status == http.StatusInternalServerError {
		level = slog.LevelError
	}
	c.gate.o.Logger.Log(c.r.Context(), level, "request refused", "method", c.r.Method, "path", c.r.URL.Path, "status", p.Status, "error", err)
	_ = c.write(p.Status, problemType, p) // an error means that the client is gone
	if hungUp {
		rec.status = statusGone
	}
}

// place returns which part of the request has a wrong field.
func (c *call) place(field string) string {
	for _, p := range c.params() {
		if p.Name == field {
			return p.In
		}
	}
	switch {
	case field == "headers", len(c.r.Header.Values(field)) > 0:
		return "header"
	case field == "body", c.op.Request != nil && !c.given(field):
		return "body"
	}
	return "query"
}

// params returns the parameters of the call; of a request that is no call there are none.
func (c *call) params() []calls.Param {
	if c.op.Input == nil {
		return nil
	}
	return c.op.Params()
}

// answer answers in JSON.
func (c *call) answer(status int, reply any) error { return c.write(status, "application/json", reply) }

// write answers with a value as JSON. The error is that of the connection.
func (c *call) write(status int, contentType string, reply any) error {
	return c.writeAll(status, contentType, func(e *json.Encoder) error { return e.Encode(reply) })
}

// writeAll answers with the lines that encode writes.
func (c *call) writeAll(status int, contentType string, encode func(*json.Encoder) error) error {
	buffer := buffers.Get().(*bytes.Buffer)
	defer func() {
		if buffer.Cap() <= maxPooled {
			buffers.Put(buffer)
		}
	}()
	buffer.Reset()
	encoder := json.NewEncoder(buffer)
	encoder.SetEscapeHTML(false)
	if err := encode(encoder); err != nil {
		c.gate.o.Logger.Error("cannot encode a reply", "error", err)
		http.Error(c.w, "cannot encode the reply", http.StatusInternalServerError)
		return nil
	}
	h := c.w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(buffer.Len()))
	c.w.WriteHeader(status)
	_, err := c.w.Write(buffer.Bytes())
	return err
}

// writeWithin bounds how long the answer may take from now on.
func (c *call) writeWithin(d time.Duration) error {
	return http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(d))
}
