package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	"github.com/bellhopd/bellhop/daemon/natsgate"
	"github.com/bellhopd/bellhop/notify"
)

// nats reports whether NATS can be used. Since when it cannot is known to the daemons alone:
// their logs and their metrics have it.
func (e *exam) nats(ctx context.Context) {
	const check = "nats"
	o := e.o.NATS
	if o.URL == "" {
		e.report(check, OK, "off", "")
		return
	}
	server, err := natsgate.Ping(ctx, o)
	if err == nil {
		e.report(check, OK, server+" is up", "")
		return
	}
	verdict, waits := Warn, "programs that use NATS get nothing"
	if e.undelivered = e.pushedToNATS(ctx); len(e.undelivered) > 0 {
		verdict, waits = Fail, waits+", and what is pushed there waits: "+joined(e.undelivered)
	}
	if o.JetStream != "" {
		verdict, waits = Fail, waits+"; broadcasts wait for the stream "+o.JetStream
	}
	e.report(check, verdict, fmt.Sprintf("away: %v; %s", err, waits), natsRemedy(err))
}

// joined names patterns.
func joined(patterns []notify.Pattern) string {
	texts := make([]string, len(patterns))
	for i, p := range patterns {
		texts[i] = p.String()
	}
	return strings.Join(texts, ", ")
}

// pushedToNATS returns the topics and patterns that are pushed to NATS, as far as they can be read.
func (e *exam) pushedToNATS(ctx context.Context) (topics []notify.Pattern) {
	if founded, err := e.founded(ctx); err != nil || !founded {
		return nil
	}
	all, _ := e.allPushes(ctx) // the check of pushes reports the error
	for _, p := range all {
		if !p.IsNATS() || p.Paused != "" {
			continue
		}
		for _, topic := range p.Topics {
			pattern, _ := notify.ParsePattern(topic) // of a push that was checked
			topics = append(topics, pattern)
		}
	}
	return topics
}

// natsRemedy returns what to do about a NATS that cannot be used.
func natsRemedy(err error) string {
	var name *net.DNSError
	switch {
	case natsgate.LockedOut(err):
		return "check the user in BELLHOP_NATS_URL, or BELLHOP_NATS_CREDS_FILE"
	case natsgate.Untrusted(err):
		return "check whether that NATS uses TLS, tls:// in BELLHOP_NATS_URL, and with it BELLHOP_NATS_CA_FILE"
	case errors.As(err, &name):
		return "check the name of the host in BELLHOP_NATS_URL"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "start NATS there (systemctl start nats-server), or name another in BELLHOP_NATS_URL"
	case timedOut(err):
		return "check the address in BELLHOP_NATS_URL, that its host is up, and what firewalls let through"
	}
	return "check the settings of NATS: bellhop config"
}
