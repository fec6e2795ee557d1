package outage

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// Kinds of causes, beside the first words of what Redis answers.
const (
	unknown = ""
	refused = "refused"
	name    = "name"
	timeout = "timeout"
)

// causeOf returns the kind of the cause of the error among keys and values, and its text behind a colon.
func causeOf(args []any) (kind, text string) {
	for _, arg := range args {
		if err, ok := arg.(error); ok {
			return kindOf(err), ": " + err.Error()
		}
	}
	return unknown, ""
}

// kindOf returns the kind of the cause of an error. Errors of a kind are mended in the same way. A connection that breaks is
// unknown: why, says the next one.
func kindOf(err error) string {
	var reply redis.Error
	var dns *net.DNSError
	var network net.Error
	switch {
	case errors.As(err, &dns):
		return name
	case errors.Is(err, syscall.ECONNREFUSED):
		return refused
	case errors.As(err, &reply):
		if word, _, _ := strings.Cut(reply.Error(), " "); word == strings.ToUpper(word) {
			return word
		}
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return timeout
	}
	return unknown
}
