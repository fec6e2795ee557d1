package api

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
)

// A Problem is an error as it is told to a client (RFC 9457).
type Problem struct {
	Type   string `json:"type"`   // what kind it is, for programs
	Title  string `json:"title"`  // the same for people
	Status int    `json:"status"` // of HTTP
	Detail string `json:"detail"` // what is wrong this time, and what would be right
}

// problemType is what the type of every problem begins with.
const problemType = "urn:bellhop:"

// problems are the kinds of errors that a client may want to branch on. The
// first that fits is taken: ErrTooLarge is an ErrInvalid.
var problems = []struct {
	err         error
	name, title string
	status      int
}{
	{notify.ErrTooLarge, "too-large", "body too large", http.StatusRequestEntityTooLarge},
	{notify.ErrInvalid, "invalid", "invalid input", http.StatusUnprocessableEntity},
	{notify.ErrExists, "exists", "id already in use", http.StatusConflict},
	{notify.ErrNotFound, "not-found", "no such message", http.StatusNotFound},
	{notify.ErrLeased, "leased", "message is leased", http.StatusConflict},
	{notify.ErrDead, "dead", "message is dead", http.StatusConflict},
	{notify.ErrLeaseLost, "lease-lost", "lease lost", http.StatusConflict},
	{notify.ErrUnfit, "unavailable", "redis cannot be used", http.StatusServiceUnavailable},
	{context.Canceled, "unavailable", "the daemon is stopping", http.StatusServiceUnavailable},
}

// ProblemOf returns what a client is told of an error: 422 for a
// notify.ErrInvalid, 413 where it is an ErrTooLarge, 404 for an ErrNotFound, 409
// for one of the state that a message is in, 503 where Redis is away, out of
// memory or unfit, and 500 for the rest.
func ProblemOf(err error) Problem {
	detail := oneLine(err.Error())
	for _, p := range problems {
		if errors.Is(err, p.err) {
			return Problem{Type: problemType + p.name, Title: p.title, Status: p.status, Detail: detail}
		}
	}
	p := Problem{Type: problemType + "internal", Title: "internal error", Status: http.StatusInternalServerError, Detail: detail}
	switch {
	case redis.HasErrorPrefix(err, "OOM"):
		p.Type, p.Title, p.Status = problemType+"unavailable", "redis is out of memory", http.StatusServiceUnavailable
	case notify.Away(err):
		p.Type, p.Title, p.Status = problemType+"unavailable", "redis is away", http.StatusServiceUnavailable
	}
	return p
}

// oneLine makes a text fit for a header: errors that were joined have several
// lines, and what was refused may be binary.
func oneLine(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "�"), "\n", "; ")
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
}
