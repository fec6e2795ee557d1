package natsgate

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/notify"
)

func TestParseSettlement(t *testing.T) {
	t.Parallel()
	kept := func(result string) settlement {
		s := settlement{verb: verbAck, result: &notify.AckResult{Keep: 24 * time.Hour}}
		if result != "" {
			s.result.Body = []byte(result)
		}
		return s
	}
	after := func(d time.Duration) settlement { return settlement{verb: verbNak, delay: &d} }
	for data, want := range map[string]settlement{
		"+ACK":                {verb: verbAck},
		"+ACK\n":              {verb: verbAck},
		" +ACK ":              {verb: verbAck},
		`+ACK {"keep":"24h"}`: kept(""),
		`+ACK {"keep":"1d","result":"paid \u00e4"}`:       kept("paid ä"),
		`+ACK {"result":"","keep":"24h"}`:                 {verb: verbAck, result: &notify.AckResult{Keep: 24 * time.Hour, Body: []byte{}}},
		`+ACK { "keep": "24h", "result": {"total": 12} }`: kept(`{"total": 12}`),
		`+ACK {"keep":"24h","result":0}`:                  kept("0"),
		`+ACK {"keep":"24h","result":[]}`:                 kept("[]"),
		`+ACK {"keep":"24h","result":null}`:               kept(""),
		"+WPI":                                            {verb: verbWork},
		"+TERM":                                           {verb: verbTerm},
		"+TERM  no such order ":                           {verb: verbTerm, reason: "no such order"},
		"-NAK":                                            {verb: verbNak},
		"-NAK {}":                                         {verb: verbNak},
		`-NAK {"delay":"5s"}`:                             after(5 * time.Second),
		`-NAK { "delay" : "0s" }`:                         after(0),
		`-NAK {"delay": 5000000000}`:                      after(5 * time.Second),
		`-NAK {"delay":5e9}`:                              after(5 * time.Second),
		`-NAK {"delay":0}`:                                after(0),
		"-NAK 5s":                                         after(5 * time.Second),
		`-NAK {"attempt":"keep"}`:                         {verb: verbNak, keep: true},
		`-NAK {"reason":"no such order"}`:                 {verb: verbNak, reason: "no such order"},

		`-NAK {"reason":"busy","delay":"0s"}`:  {verb: verbNak, delay: new(time.Duration(0)), reason: "busy"},
		`-NAK {"delay":"0s","attempt":"keep"}`: {verb: verbNak, delay: new(time.Duration(0)), keep: true},
	} {
		got, err := parseSettlement([]byte(data))
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(settlement{})); err != nil || diff != "" {
			t.Errorf("%q: %v\n%s", data, err, diff)
		}
	}
	for _, data := range []string{
		"", " ", "ACK", "+ack", "+NXT", "+OK", "+ACKX", "+ACK +ACK", "+WPI 5s", "+TERMINATE", "-NAK{}", "\x00", "\xff",
		"-NAK soon", "-NAK -5s", "-NAK 5", "-NAK []", `-NAK {"delay":"5s"`, `-NAK {"delay":"5s"}}`, `-NAK {"delay":"5s"} {}`,
		`-NAK {"delay":""}`, `-NAK {"delay":"-5s"}`, `-NAK {"delay":-1}`, `-NAK {"delay":1e300}`, `-NAK {"delay":null}`,
		`-NAK {"delay":true}`, `-NAK {"delay":["5s"]}`, `-NAK {"reason":7}`, `-NAK {"reason":"x","reason":"y"}`, `-NAK {"reason":"x","Reason":"y"}`, `-NAK "5s"`, `-NAK {"delay":"5s","delay":"6s"}`,
		"+ACK {}", "+ACK now", "+ACK 24h", `+ACK {"keep":""}`, `+ACK {"keep":"0s"}`, `+ACK {"keep":"-1h"}`, `+ACK {"keep":"720h1ns"}`, `+ACK {"keep":24}`, `+ACK {"result":"x"}`,
		`+ACK {"keep":"24h","result":}`, `+ACK {"keep":"24h","result":"\ud83d"}`, `+ACK {"keep":"24h","results":"x"}`, `+ACK {"keep":"24h"} x`, `+ACK {"keep":"24h","keep":"1h"}`,
		`+ACK {"keep":"24h","result":{"a":1,"a":2}}`,
		`-NAK {"attempt":"use"}`, `-NAK {"attempt":true}`, `-NAK {"attempt":"keep","delay":"-1s"}`, "-NAK keep",
	} {
		if got, err := parseSettlement([]byte(data)); !errors.Is(err, notify.ErrInvalid) {
			t.Errorf("%q is taken for %+v, %v", data, got, err)
		}
	}
}
