package api

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/memory"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/reach"
)

// A Problem is the form in which a client gets an error (RFC 9457).
type Problem struct {
	Type   string         `json:"type" doc:"kind of the problem, for programs" example:"urn:bellhop:invalid"`
	Title  string         `json:"title" doc:"kind of the problem, for people" example:"invalid input"`
	Status int            `json:"status" doc:"status code of HTTP" example:"422"`
	Detail string         `json:"detail" doc:"what is wrong in this case, and what would be right"`
	Errors []ProblemFault `json:"errors,omitempty" doc:"each wrong field"`

	Outcome notify.Outcome `json:"outcome,omitempty" enum:"refused" doc:"of a publish whose id is in use: refused"`

	Missing
}

// Missing says which shards of a store of several did not answer.
type Missing struct {
	Missing []int `json:"missing,omitempty" doc:"numbers of the shards that did not answer, of a store of several: what is said of them is missing; not given: all answered" example:"[3]"`
}

// MissingOf takes the error of a call on all shards. If only some did not answer, it returns
// them, and no error: the call has returned what the others said.
func MissingOf(err error) (Missing, error) {
	if missing, is := errors.AsType[*store.MissingError](err); is {
		return Missing{missing.Shards}, nil
	}
	return Missing{}, err
}

// Err returns the error that names the shards that did not answer; nil if all did.
func (m Missing) Err() error {
	if len(m.Missing) == 0 {
		return nil
	}
	return &store.MissingError{Shards: m.Missing, Err: errors.New("they do not answer")}
}

// A ProblemFault is a wrong field of a request, in a Problem.
type ProblemFault struct {
	In     string `json:"in,omitempty" enum:"path,query,header,body" doc:"part of the request with the field"`
	Name   string `json:"name" doc:"name of the field" example:"delay"`
	Detail string `json:"detail" doc:"what is wrong with the field, and what would be right"`
}

// Errors of a request that do not concern a message.
var (
	ErrBusy      = errors.New("too many requests are under way")
	ErrForbidden = errors.New("the token does not permit it")
	ErrSearches  = errors.New("the client has its limit of searches of bodies under way; send the request again when one is done")
	ErrNoArchive = errors.New("no archive is configured; set BELLHOP_ARCHIVE_URL")
	ErrArchive   = errors.New("the archive cannot answer")
	ErrNoOutbox  = errors.New("no outbox is configured; set BELLHOP_OUTBOX_URL")
	ErrOutbox    = errors.New("the outbox cannot answer")
	ErrPushOff   = errors.New("this daemon pushes to no URL, since its BELLHOP_PUSH_ALLOW is empty; set that to public, or to nets such as 10.1.0.0/16")
	ErrNoClock   = errors.New("the clock of Redis goes by itself; to move it, run bellhop dev --clock manual")
	ErrNoNATS    = errors.New("this daemon has no NATS, since its BELLHOP_NATS_URL is empty; set that, or push to a url")
)

// problemType is the prefix of the type of every problem.
const problemType = "urn:bellhop:"

// problems are the kinds of errors that a client may want to branch on. The first
// match counts: an ErrTooLarge is also an ErrInvalid.
var problems = []struct {
	err         error
	name, title string
	status      int
}{
	{ErrForbidden, "forbidden", "not permitted", http.StatusForbidden},
	{ErrSearches, "busy", "too many searches of bodies", http.StatusTooManyRequests},
	{ErrNoArchive, "no-archive", "no archive", http.StatusNotFound},
	{ErrNoOutbox, "no-outbox", "no outbox", http.StatusNotFound},
	{ErrPushOff, "push-off", "the daemon pushes to no URL", http.StatusNotFound},
	{ErrNoNATS, "no-nats", "the daemon has no NATS", http.StatusNotFound},
	{ErrNoClock, "no-clock", "no clock that can be moved", http.StatusNotFound},
	{memory.ErrAdvancing, "advancing", "another advance is under way", http.StatusConflict},
	{memory.ErrNotQuiet, "not-quiet", "the store is not quiet", http.StatusConflict},
	{ErrArchive, "archive", "the archive cannot answer", http.StatusServiceUnavailable},
	{ErrOutbox, "outbox", "the outbox cannot answer", http.StatusServiceUnavailable},
	{notify.ErrTooLarge, "too-large", "body too large", http.StatusRequestEntityTooLarge},
	{notify.ErrInvalid, "invalid", "invalid input", http.StatusUnprocessableEntity},
	{notify.ErrExists, "exists", "id already in use", http.StatusConflict},
	{store.ErrGroupComplete, "group-complete", "group is complete", http.StatusConflict},
	{store.ErrGroupTaken, "group-taken", "another message waits for the group", http.StatusConflict},
	{notify.ErrNotFound, "not-found", "no such message", http.StatusNotFound},
	{store.ErrNoPush, "not-found", "no such push", http.StatusNotFound},
	{store.ErrNoSchedule, "not-found", "no such schedule", http.StatusNotFound},
	{store.ErrNoGroup, "not-found", "no such group", http.StatusNotFound},
	{notify.ErrGone, "gone", "message ended", http.StatusGone},
	{notify.ErrLeased, "leased", "message is leased", http.StatusConflict},
	{notify.ErrDead, "dead", "message is dead", http.StatusConflict},
	{store.ErrCancelled, "stop", "message is to be cancelled", http.StatusConflict},
	{notify.ErrLeaseLost, "lease-lost", "lease lost", http.StatusConflict},
	{store.ErrFormat, "format", "the store has an older format", http.StatusConflict},
	{notify.ErrUnreplicated, "unreplicated", "too few replicas confirmed it", http.StatusServiceUnavailable},
	{ErrBusy, "busy", "too many requests", http.StatusServiceUnavailable},
	{notify.ErrFull, "full", "redis is full", http.StatusServiceUnavailable},
	{notify.ErrUnfit, "unavailable", "redis cannot be used", http.StatusServiceUnavailable},
	{context.Canceled, "unavailable", "the daemon is stopping", http.StatusServiceUnavailable},
}

// Away is the title of the problem of a Redis that does not answer, or not as it should.
const Away = "redis is away"

// ProblemOf returns the problem of an error. Its status is 422 for a
// notify.ErrInvalid, 413 for an ErrTooLarge, 404 for an ErrNotFound, 410 for an ErrGone, and 409 for an
// error about a message's state. It is 503 if Redis cannot be reached, is full, has too
// few replicas, is unfit or refuses its user, and 500 for all other errors.
func ProblemOf(err error) Problem {
	for _, p := range problems {
		if errors.Is(err, p.err) {
			return NewProblem(p.name, p.title, p.status, err)
		}
	}
	switch {
	case refusesUser(err):
		return NewProblem("unavailable", "redis refuses the daemon", http.StatusServiceUnavailable, err)
	case notify.Retryable(err):
		return NewProblem("unavailable", Away, http.StatusServiceUnavailable, err)
	}
	return NewProblem("internal", "internal error", http.StatusInternalServerError, err)
}

// PublishError returns the error of a publish, whose problem says if the message that
// has its id was the reason; nil for nil.
func PublishError(p notify.Publication, err error) error {
	if err != nil && p.Outcome == notify.Refused {
		return &refusedPublish{err}
	}
	return err
}

type refusedPublish struct{ error }

func (r *refusedPublish) Unwrap() error { return r.error }

// refusesUser reports whether Redis does not know the daemon's user, or denies it a
// command of a script. The operator must repair this; the client is not at fault.
func refusesUser(err error) bool {
	return reach.Refused(err) || redis.HasErrorPrefix(err, "NOAUTH") || redis.HasErrorPrefix(err, "WRONGPASS")
}

// NewProblem returns the problem of an error of a kind: its type is urn:bellhop:NAME.
func NewProblem(name, title string, status int, err error) Problem {
	p := Problem{Type: problemType + name, Title: title, Status: status, Detail: oneLine(err.Error())}
	if refused := (*refusedPublish)(nil); errors.As(err, &refused) {
		p.Outcome = notify.Refused
	}
	if status == http.StatusServiceUnavailable {
		p.Missing.Missing = store.MissingIn(err)
	}
	for _, f := range fault.All(err) {
		p.Errors = append(p.Errors, ProblemFault{Name: oneLine(f.Field), Detail: oneLine(f.Error())})
	}
	return p
}

// oneLine makes a text fit for a header: joined errors have several lines, and refused
// input may be binary.
func oneLine(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "�"), "\n", "; ")
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
}
