package history_test

import (
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/faults/history"
)

// request is what all requests to a URL have in common, but for their webhook-id.
const request = "due=50 lease=1000 target=daemons"

// inKey are two messages of a key that are pushed.
const inKey = `
	0-2 p publish a ok key=k due=50
	3-4 p publish b ok key=k due=50
	`

// Wrong histories of requests to a URL, by the rule that they break.
var wrongPushes = map[history.Rule]map[string]string{
	history.Webhook: {
		"without a webhook-id": `
			0-2 p publish a ok due=50
			70-75 h handle a ok attempt=1 receipt=1070 REQUEST`,
		"another one in another attempt": `
			0-2 p publish a ok due=50
			70-75 h handle a no attempt=1 receipt=1070 webhook=t:a REQUEST
			170-175 h handle a ok attempt=2 receipt=1170 webhook=t:a.2 REQUEST`,
		"that of another message": `
			0-2 p publish a ok due=50
			0-2 p publish b ok due=50
			70-75 h handle a ok attempt=1 receipt=1070 webhook=t:b REQUEST
			70-75 h handle b ok attempt=1 receipt=1070 webhook=t:b REQUEST`,
		"forged": `
			0-2 p publish a ok due=50
			70-75 h handle a no attempt=1 receipt=1070 webhook=t:a forged=true REQUEST
			170-175 h handle a ok attempt=2 receipt=1170 webhook=t:a REQUEST`,
	},
	history.Lost: {
		"failed and nowhere": `
			0-2 p publish a ok due=50
			70-75 h handle a no attempt=1 receipt=1070 webhook=t:a REQUEST`,
		"unanswered and nowhere": `
			0-2 p publish a ok due=50
			70-? h handle a attempt=1 receipt=1070 webhook=t:a REQUEST`,
	},
	history.Double: {
		"acknowledged, and again": `
			0-2 p publish a ok due=50
			70-75 h handle a ok attempt=1 receipt=1070 webhook=t:a REQUEST
			80-85 h handle a ok attempt=2 receipt=1080 webhook=t:a REQUEST`,
		"answered, and made again": `
			0-2 p publish a ok due=50
			70-75 h handle a ok attempt=1 receipt=1070 webhook=t:a REQUEST
			80-85 h handle a ok attempt=1 receipt=1070 webhook=t:a REQUEST`,
		"under way twice": `
			0-2 p publish a ok due=50
			70-300 h handle a ok attempt=1 receipt=1070 webhook=t:a REQUEST
			100-200 h handle a ok attempt=2 receipt=1100 webhook=t:a REQUEST`,
	},
	history.Early: {
		"claimed before it was due": `
			0-2 p publish a ok due=60
			70-75 h handle a ok attempt=1 receipt=1055 webhook=t:a due=60 lease=1000 target=daemons`,
	},
	history.Seat: {
		"two of a key under way": inKey + `
			70-90 h handle a ok attempt=1 receipt=1070 webhook=t:a REQUEST
			75-80 h handle b ok attempt=1 receipt=1075 webhook=t:b REQUEST`,
		"between two attempts": inKey + `
			70-75 h handle a no attempt=1 receipt=1070 webhook=t:a REQUEST
			85-90 h handle b ok attempt=1 receipt=1085 webhook=t:b REQUEST
			170-175 h handle a ok attempt=2 receipt=1170 webhook=t:a REQUEST`,
		"after a lease that ended": inKey + `
			70-? h handle a attempt=1 receipt=1070 webhook=t:a REQUEST
			1085-1090 h handle b ok attempt=1 receipt=2085 webhook=t:b REQUEST
			1170-1175 h handle a ok attempt=2 receipt=2170 webhook=t:a REQUEST`,
	},
	history.KeyOrder: {
		"the later one first": inKey + `
			70-75 h handle b ok attempt=1 receipt=1070 webhook=t:b REQUEST
			85-90 h handle a ok attempt=1 receipt=1085 webhook=t:a REQUEST`,
	},
}

// Histories of requests to a URL that break no rule.
var rightPushes = map[string]string{
	"one after the other": inKey + `
		70-75 h handle a ok attempt=1 receipt=1070 webhook=t:a REQUEST
		85-90 h handle b ok attempt=1 receipt=1085 webhook=t:b REQUEST`,
	"after a failure": inKey + `
		70-75 h handle a no attempt=1 receipt=1070 webhook=t:a REQUEST
		170-175 h handle a ok attempt=2 receipt=1170 webhook=t:a REQUEST
		185-190 h handle b ok attempt=1 receipt=1185 webhook=t:b REQUEST`,
	"made again, since a kept connection was closed": inKey + `
		70-75 h handle a no attempt=1 receipt=1070 webhook=t:a REQUEST
		80-85 h handle a ok attempt=1 receipt=1070 webhook=t:a REQUEST
		95-99 h handle b ok attempt=1 receipt=1095 webhook=t:b REQUEST`,
	"long after it was due, since the endpoint failed": `
		0-2 p publish a ok due=50
		70-75 h handle a no attempt=1 receipt=1070 webhook=t:a REQUEST
		0-2 q publish b ok due=50
		9000-9005 h handle b ok attempt=1 receipt=9990 webhook=t:b REQUEST
		9000-9005 h handle a ok attempt=2 receipt=9990 webhook=t:a REQUEST`,
	"acknowledged, and again, since a daemon was killed": `
		0-2 p publish a ok due=50
		70-75 h handle a ok attempt=1 receipt=1070 webhook=t:a REQUEST
		76 harness kill target=daemon-1.1
		80-85 h handle a ok attempt=2 receipt=1080 webhook=t:a REQUEST`,
	"the first answer was lost, and the next of the key waited": inKey + `
		60-200 fault cut
		70-75 h handle a ok attempt=1 receipt=1070 webhook=t:a REQUEST
		170-175 h handle a ok attempt=2 receipt=1170 webhook=t:a REQUEST
		185-190 h handle b ok attempt=1 receipt=1185 webhook=t:b REQUEST`,
	"a request arrives late, when the next of the key is done": inKey + `
		60-300 fault cut
		170-175 h handle a ok attempt=2 receipt=1170 webhook=t:a REQUEST
		185-190 h handle b ok attempt=1 receipt=1185 webhook=t:b REQUEST
		300-301 h handle a ok attempt=1 receipt=1070 webhook=t:a REQUEST`,
	"rescheduled behind the next of the key": inKey + `
		40-41 p reschedule a ok due=400
		70-75 h handle b ok attempt=1 receipt=1070 webhook=t:b REQUEST
		410-415 h handle a ok attempt=1 receipt=1410 webhook=t:a due=400 lease=1000 target=daemons`,
}

func TestPushes(t *testing.T) {
	of := bounds
	of.Pushed = []string{"t"}
	for _, all := range wrongPushes {
		fill(all)
	}
	fill(rightPushes)
	expectEach(t, wrongPushes, rightPushes, of)
}

// Wrong histories of broadcasts that are pushed to a URL, and histories of some that break no rule.
var (
	wrongAnnouncements = map[history.Rule]map[string]string{
		history.Missed: {
			"not pushed": `
				0-2 p broadcast b ok due=10
				final log b 11
				900 harness drained`,
			"failed, and not again": `
				0-2 p broadcast b ok due=10
				final log b 11
				20-25 h push b no attempt=1 webhook=t:b
				900 harness drained`,
			"unanswered, and not again": `
				0-2 p broadcast b ok due=10
				final log b 11
				20-? h push b attempt=1 webhook=t:b
				900 harness drained`,
			"another one was": `
				0-2 p broadcast a ok due=10
				0-2 p broadcast b ok due=10
				final log a 11
				final log b 12
				20-25 h push a ok attempt=1 webhook=t:a
				26-27 h push a ok attempt=2 webhook=t:a
				900 harness drained`,
		},
		history.Webhook: {
			"another id in another attempt": `
				0-2 p broadcast b ok due=10
				final log b 11
				20-25 h push b no attempt=1 webhook=t:b
				30-35 h push b ok attempt=2 webhook=t:b.2
				900 harness drained`,
			"forged": `
				0-2 p broadcast b ok due=10
				final log b 11
				20-25 h push b ok attempt=1 webhook=t:b forged=true
				900 harness drained`,
		},
		history.Unpublished: {
			"a message": `
				0-2 p publish m ok due=10
				final ready m 10
				20-25 h push m ok attempt=1 webhook=t:m
				900 harness drained`,
			"from nowhere": `
				20-25 h push b ok attempt=1 webhook=t:b
				900 harness drained`,
		},
	}
	rightAnnouncements = map[string]string{
		"pushed": `
			0-2 p broadcast b ok due=10
			final log b 11
			20-25 h push b ok attempt=1 webhook=t:b
			900 harness drained`,
		"again after a failure, an answer that was lost, and one that was not": `
			0-2 p broadcast b ok due=10
			final log b 11
			20-25 h push b no attempt=1 webhook=t:b
			30-? h push b attempt=2 webhook=t:b
			40-45 h push b ok attempt=3 webhook=t:b
			50-55 h push b ok attempt=4 webhook=t:b
			900 harness drained`,
		"it may have expired": `
			0-2 p broadcast b ok due=10 ttl=50
			final log b 11
			20-25 h push b no attempt=1 webhook=t:b
			900 harness drained`,
		"the end was not awaited": `
			0-2 p broadcast b ok due=10
			final log b 11`,
		"forgotten after it was pushed": `
			0-2 p broadcast b ok due=10
			20-25 h push b ok attempt=1 webhook=t:b
			50-60 fault power loss=1000
			900 harness drained`,
	}
)

func TestAnnouncements(t *testing.T) {
	of := bounds
	of.PushedAll = []string{"t"}
	expectEach(t, wrongAnnouncements, rightAnnouncements, of)
}

// How late the messages of a bulk are is not checked.
func TestBulk(t *testing.T) {
	s := read(t, `
		0-2 p publish a ok due=50
		9000-9005 w takes a due=50
		9006-9007 w ack a ok receipt=10000`)
	expect(t, s.records, s.final, bounds, history.Late)
	of := bounds
	of.Bulk = []string{"t"}
	expect(t, s.records, s.final, of, "")
}

// fill writes what all requests have in common into histories.
func fill(all map[string]string) {
	for name, text := range all {
		all[name] = strings.ReplaceAll(text, "REQUEST", request)
	}
}
